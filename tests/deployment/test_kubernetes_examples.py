"""The manifests of the documentation would be accepted, and fit together."""

from pathlib import Path

import msgspec
import pytest
import yaml

from adaptive_batching.cli.commands.sidecar import command
from tests.deployment import manifests
from tests.deployment.manifests import checked
from tests.deployment.promql import known_labels, known_names, labels_of, named

FILES = sorted((Path(__file__).parents[2] / "docs" / "examples" / "kubernetes").glob("*.yaml"))


def objects():
    return [checked(each) for file in FILES for each in yaml.safe_load_all(file.read_text())]


def only(kind):
    [found] = [each for each in objects() if isinstance(each, kind)]
    return found


def test_all_are_accepted():
    """One of each kind."""
    kinds = ["Deployment", "Service", "NetworkPolicy", "ScaledObject", "HorizontalPodAutoscaler"]
    assert sorted(type(each).__name__ for each in objects()) == sorted(kinds)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("containerPort: 8080", "port: 8080"), ("replicas: 2", 'replicas: "2"'), ("apps/v1", "v1")],
)
def test_a_mistake_is_seen(right, wrong):
    """What `kubectl apply --validate=strict` refuses, this does."""
    text = FILES[-1].read_text().replace(right, wrong, 1)
    with pytest.raises(msgspec.ValidationError):
        [checked(each) for each in yaml.safe_load_all(text)]


def test_the_sidecar_starts_with_these_arguments():
    """They are options of today's command line, and its ports are those of the pod."""
    pod = only(manifests.Deployment).spec.template.spec
    [sidecar] = pod.init_containers
    assert sidecar.args[0] == "sidecar"
    given = command.make_context("sidecar", sidecar.args[1:]).params
    ports = {port.name: port.container_port for port in sidecar.ports}
    assert ports == {"http": given["port"], "admin": given["admin_port"]}
    assert f"--rest_api_port={given['upstreams'][0].rpartition(':')[2]}" in pod.containers[0].args
    assert given["drain_delay"] + given["drain_timeout"] < pod.termination_grace_period_seconds
    probes = (sidecar.readiness_probe, sidecar.liveness_probe)
    assert [probe.http_get.port for probe in probes] == ["admin", "admin"]


def test_they_mean_the_same_pods():
    """Whoever selects pods finds those of the deployment."""
    deployment = only(manifests.Deployment)
    labels = deployment.spec.template.metadata.labels
    assert deployment.spec.selector.match_labels == labels
    assert only(manifests.Service).spec.selector == labels
    assert only(manifests.NetworkPolicy).spec.pod_selector.match_labels == labels
    for scaler in (only(manifests.ScaledObject), only(manifests.HorizontalPodAutoscaler)):
        target = scaler.spec.scale_target_ref
        assert (target.kind, target.name) == ("Deployment", deployment.metadata.name)


def test_they_scale_by_metrics_that_exist():
    """By both autoscalers the same two, to the same values."""
    queries = [trigger.metadata for trigger in only(manifests.ScaledObject).spec.triggers]
    for each in queries:
        assert set(named(each.query)) <= known_names()
        assert all(label in known_labels(name) for name, label in labels_of(each.query))
    by_pods = {
        each.pods.metric.name: each.pods.target.average_value
        for each in only(manifests.HorizontalPodAutoscaler).spec.metrics
    }
    by_keda = {
        name: f"{float(each.threshold) * 1000:g}m" for each in queries for name in named(each.query)
    }
    assert by_pods == by_keda
    assert set(by_pods) <= known_names()
