"""The Helm chart and KServe's runtime: what Kubernetes would refuse, and whether parts fit."""

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from adaptive_batching.cli import main

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "deployment"
CHART = FOLDER / "chart"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGE = f"registry.example.com/adaptive-batching:{VERSION}"
SIDECAR = {
    "args": ["sidecar", "--upstream=http://127.0.0.1:8501", "--protocol=tensorflow"],
    "model": {"image": "tensorflow/serving:2.19.0", "args": ["--rest_api_port=8501"]},
    "env": [{"name": "ADAPTIVE_BATCHING_MAX_LATENCY", "value": "100ms"}],
    "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}],
    "podLabels": {"team": "a"},
    "imagePullSecrets": [{"name": "ours"}],
    "nodeSelector": {"pool": "models"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}


def rendered(values):
    """Helm's own answer, from its program or its library."""
    if shutil.which("helm"):
        template = ["helm", "template", "demo", str(CHART), "--values", "-"]
        done = subprocess.run(
            template, input=json.dumps(values), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        texts = [done.stdout]
    else:
        library = pytest.importorskip("helm_python", reason="Helm is not installed")
        with library.Chart.load(CHART) as chart:
            texts = chart.render(values, name="demo").values()
    return {each["kind"]: each for text in texts for each in yaml.safe_load_all(text)}


def accepted(document):
    """What `kubectl apply --validate=strict` accepts, an error where it would refuse."""
    schemas = pytest.importorskip("kubernetes_validate", reason="no schemas of Kubernetes")
    schemas.validate(document, "1.34", strict=True)


def options(container, variables=()):
    """What the program reads of a container's arguments and variables."""
    name, *arguments = container["args"]
    command = main.get_command(main.make_context("", ["--help"], resilient_parsing=True), name)
    with pytest.MonkeyPatch.context() as patch:
        for each in variables:
            patch.setenv(each["name"], each["value"])
        return command.make_context(name, arguments, auto_envvar_prefix="ADAPTIVE_BATCHING").params


@pytest.mark.parametrize("values", [{}, SIDECAR], ids=["service", "sidecar"])
def test_the_chart_makes_what_kubernetes_accepts(values):
    """With ports, probes and times that fit what the program is told."""
    objects = rendered(values)
    pod = objects["Deployment"]["spec"]["template"]
    [ours] = pod["spec"]["initContainers"] if values else pod["spec"]["containers"]
    given = options(ours, ours["env"])
    ports = {port["name"]: port["containerPort"] for port in ours["ports"]}
    assert ports == {"http": given["port"], "admin": given["admin_port"]}
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(given["admin_port"])
    until = pod["spec"]["terminationGracePeriodSeconds"]
    assert given["drain_delay"] + given["drain_timeout"] < until
    assert ours["image"] == IMAGE
    selector = objects["Service"]["spec"]["selector"]
    assert selector == objects["Deployment"]["spec"]["selector"]["matchLabels"]
    assert selector.items() <= pod["metadata"]["labels"].items()
    for each in objects.values():
        accepted(each)


def test_kserve_sends_to_the_sidecar():
    """Which has the only port, and is before the server of the model."""
    runtime = yaml.safe_load((FOLDER / "kserve.yaml").read_text())
    model, ours = runtime["spec"]["containers"]
    given = options(ours)
    [port] = ours["ports"]
    assert port["containerPort"] == given["port"] == ours["readinessProbe"]["httpGet"]["port"]
    assert f"--http_port={given['upstreams'][0].rpartition(':')[2]}" in model["args"]
    assert runtime["spec"]["annotations"]["prometheus.kserve.io/port"] == str(given["admin_port"])
    assert (ours["image"], "ports" in model) == (IMAGE, False)
    spec = {"containers": [model, ours]}
    accepted({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m"}, "spec": spec})


def test_versions_are_those_of_the_package():
    """In the chart, and wherever an example names the image."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"]} == {VERSION}
    sidecar = (ROOT / "docs/examples/kubernetes/sidecar.yaml").read_text()
    assert f"image: {IMAGE}\n" in sidecar
