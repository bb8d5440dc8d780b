"""What Kubernetes and KEDA accept of the manifests in the documentation, and nothing else.

Fields are those of the API references (apps/v1, v1, networking.k8s.io/v1, autoscaling/v2,
keda.sh/v1alpha1) that the manifests use: a field that is misspelt, or stands in the wrong place, is
refused as `kubectl apply --validate=strict` would refuse it.
"""

from typing import Any, Literal

import msgspec


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """No field but those that are known."""


Labels = dict[str, str]


class Metadata(Strict):
    name: str
    labels: Labels = {}
    annotations: Labels = {}


class Selector(Strict):
    match_labels: Labels


class Port(Strict):
    container_port: int
    name: str


class HttpGet(Strict):
    path: str
    port: str | int


class Probe(Strict):
    http_get: HttpGet
    period_seconds: int = 10
    failure_threshold: int = 3


class Resources(Strict):
    requests: dict[Literal["cpu", "memory"], str] = {}
    limits: dict[Literal["cpu", "memory"], str] = {}


class Container(Strict):
    name: str
    image: str
    args: list[str] = []
    ports: list[Port] = []
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    resources: Resources | None = None


class Sidecar(Container):
    restart_policy: Literal["Always"] | None = None


class PodSpec(Strict):
    containers: list[Container]
    init_containers: list[Sidecar] = []
    termination_grace_period_seconds: int = 30


class PodMetadata(Strict):
    labels: Labels
    annotations: Labels = {}


class Pod(Strict):
    metadata: PodMetadata
    spec: PodSpec


class DeploymentSpec(Strict):
    selector: Selector
    template: Pod
    replicas: int = 1


class Object(Strict, tag_field="kind"):
    metadata: Metadata


class Deployment(Object):
    api_version: Literal["apps/v1"]
    spec: DeploymentSpec


class ServicePort(Strict):
    name: str
    port: int
    target_port: str | int


class ServiceSpec(Strict):
    selector: Labels
    ports: list[ServicePort]


class Service(Object):
    api_version: Literal["v1"]
    spec: ServiceSpec


class Peer(Strict):
    namespace_selector: Selector


class PolicyPort(Strict):
    port: str | int


class Ingress(Strict):
    ports: list[PolicyPort]
    from_: list[Peer] = msgspec.field(name="from", default_factory=list)


class PolicySpec(Strict):
    pod_selector: Selector
    policy_types: list[Literal["Ingress", "Egress"]]
    ingress: list[Ingress]


class NetworkPolicy(Object):
    api_version: Literal["networking.k8s.io/v1"]
    spec: PolicySpec


class Target(Strict):
    name: str
    kind: str = "Deployment"
    api_version: str = "apps/v1"


class Query(Strict):
    server_address: str
    query: str
    threshold: str


class Trigger(Strict):
    type: Literal["prometheus"]
    metadata: Query
    metric_type: Literal["AverageValue", "Value"] = "AverageValue"
    name: str = ""


class ScaledObjectSpec(Strict):
    scale_target_ref: Target
    triggers: list[Trigger]
    min_replica_count: int = 0
    max_replica_count: int = 100
    polling_interval: int = 30
    cooldown_period: int = 300


class ScaledObject(Object):
    api_version: Literal["keda.sh/v1alpha1"]
    spec: ScaledObjectSpec


class MetricName(Strict):
    name: str


class MetricTarget(Strict):
    type: Literal["AverageValue"]
    average_value: str


class PodsMetric(Strict):
    metric: MetricName
    target: MetricTarget


class AutoscalerMetric(Strict):
    type: Literal["Pods"]
    pods: PodsMetric


class ScalingRules(Strict):
    stabilization_window_seconds: int


class Behavior(Strict):
    scale_down: ScalingRules


class AutoscalerSpec(Strict):
    scale_target_ref: Target
    max_replicas: int
    metrics: list[AutoscalerMetric]
    min_replicas: int = 1
    behavior: Behavior | None = None


class HorizontalPodAutoscaler(Object):
    api_version: Literal["autoscaling/v2"]
    spec: AutoscalerSpec


Manifest = Deployment | Service | NetworkPolicy | ScaledObject | HorizontalPodAutoscaler


def checked(document: Any) -> Manifest:
    """A manifest as Kubernetes would read it; what it would refuse is an error here."""
    return msgspec.convert(document, type=Manifest)
