"""docs/deployment/compose.yaml: its schema, and whether its parts find each other."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from adaptive_batching.cli import main

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "deployment"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGE = f"adaptive-batching:{VERSION}"


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("compose-spec", FOLDER / "compose.yaml"),
        ("github-workflows", ROOT / ".github" / "workflows" / "release.yml"),
    ],
    ids=str,
)
def test_its_schema_is_kept(schema, file):
    """Names and types of all keys."""
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*check, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_commands_are_those_of_today():
    """The sidecar has its own in the file, the service in its Dockerfile."""
    dockerfile = FOLDER / SERVICES["service"]["build"] / "Dockerfile"
    assert f"FROM {IMAGE}\n" in dockerfile.read_text()
    assert {SERVICES[name]["image"] for name in ("sidecar", "model")} == {IMAGE}
    said = json.loads(dockerfile.read_text().partition("CMD ")[2])
    for name, *arguments in (said, SERVICES["sidecar"]["command"]):
        command = main.get_command(main.make_context("", ["--help"], resilient_parsing=True), name)
        given = command.make_context(name, arguments).params
    assert given["upstreams"] == ("http://127.0.0.1:8501",)
    assert SERVICES["model"]["entrypoint"][-1] == "8501"
    assert SERVICES["model"]["network_mode"] == "service:sidecar"


def test_what_is_watched_exists():
    """Prometheus asks admin ports, Grafana asks Prometheus, and mounted files are in the tree."""
    configs = {name: yaml.safe_load(each["content"]) for name, each in COMPOSE["configs"].items()}
    [job] = configs["prometheus"]["scrape_configs"]
    [static] = job["static_configs"]
    for target in static["targets"]:
        host, _, port = target.partition(":")
        assert SERVICES[host]["environment"] == {"ADAPTIVE_BATCHING_ADMIN_HOST": "0.0.0.0"}
        assert f"ADAPTIVE_BATCHING_ADMIN_PORT={port}\n" in (FOLDER / "Dockerfile").read_text()
    [source] = configs["datasources"]["datasources"]
    assert source["url"] == "http://prometheus:9090"
    mounts = [each for service in SERVICES.values() for each in service.get("volumes", [])]
    assert all((FOLDER / mount.partition(":")[0]).exists() for mount in mounts)
    [provider] = configs["dashboards"]["providers"]
    assert any(provider["options"]["path"] in mount for mount in mounts)
