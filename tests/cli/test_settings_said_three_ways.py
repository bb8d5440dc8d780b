"""A setting of a route is declared once: a file, a variable and an option say the same of it."""

import json

import pytest
import trustme

from adaptive_batching.cli.commands.sidecar import command
from adaptive_batching.cli.options.declared import made
from adaptive_batching.marshal.config.routes_file import read_routes
from adaptive_batching.marshal.config.settings import RouteSettings

KEYS = RouteSettings.__struct_fields__
OPTIONS = {option.name: option for option in command.params}
SAID = {  # as options and variables have it; numbers and truths are no texts in a file
    "upstreams": "http://a:1,unix:/run/b",
    "protocol": "msgpack",
    "prefix": "/v1",
    "items": "/inputs",
    "results": "/outputs",
    "packed_path": "/packed",
    "max_latency": "100ms",
    "max_batch_size": "7",
    "sizes": "1,2,4",
    "pad_to_sizes": "true",
    "cost": "/tokens:length",
    "padded": "false",
    "max_batch_cost": "4096",
    "policy": "window:5ms",
    "partition_by": "X-Tenant,X-Model",
    "shared_headers": "Cookie",
    "concurrency": "3",
    "timeout": "2s",
    "passed_timeout": "3s",
    "max_passed": "9",
    "idempotent": "false",
    "verify": "0.1%",
    "tenant_weights": "gold=3,silver=2",
    "priority_header": "X-Priority",
    "ageing": "0s",
    "max_queue": "11",
    "max_body": "1MiB",
    "max_answer": "2KiB",
    "body_timeout": "20s",
}
BESIDE = {
    "pad_to_sizes": {"sizes": "1,2,4"},
    "packed_path": {"protocol": "packed"},
    "secret_file": {"protocol": "packed"},
    "padded": {"cost": "chars"},
    "max_batch_cost": {"cost": "chars"},
    "ageing": {"priority_header": "X-Priority"},
    "upstream_ca": {"upstreams": "https://model:1"},
    "upstream_cert": {"upstreams": "https://model:1"},
}
TRUTHS = ("true", "false")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Those that some keys name."""
    folder = tmp_path_factory.mktemp("files")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "upstream_ca"))
    authority.issue_cert("model").private_key_and_cert_chain_pem.write_to_path(
        str(folder / "upstream_cert")
    )
    (folder / "latency_from").write_text('{"table": [[1, 0.005], [8, 0.01]], "residuals": []}')
    (folder / "secret_file").write_text("s" * 40)
    return {path.name: str(path) for path in folder.iterdir()}


def as_value(key, text):
    """What a file has in place of a text."""
    if key in OPTIONS and OPTIONS[key].multiple:
        return text.split(",")
    return json.loads(text) if text.isdecimal() or text in TRUTHS else text


def as_options(key, text):
    """What is typed in place of a text."""
    if text in TRUTHS:
        return OPTIONS[key].opts if text == "true" else OPTIONS[key].secondary_opts
    texts = text.split(",") if OPTIONS[key].multiple else [text]
    return [f"{OPTIONS[key].opts[0]}={each}" for each in texts]


def by_file(path, said, environment):
    """The settings of a route in a file, with variables over it."""
    table = {key: as_value(key, text) for key, text in said.items()}
    lines = (f"{key} = {json.dumps(value)}" for key, value in table.items())
    path.write_text("\n".join(["[routes.r]", *lines]))
    [route] = read_routes(path, environment)
    return route.source[1]


def by_options(arguments):
    """The settings of a route that a command line and the environment describe."""
    said = command.make_context("sidecar", arguments).params
    return made(RouteSettings, {key: said[key] for key in KEYS if key in said})


@pytest.mark.parametrize("key", KEYS)
def test_three_ways_say_the_same(key, files, tmp_path, monkeypatch):
    """In a file, in a variable over the file, as an option; in a variable for that option."""
    text = (SAID | files)[key]
    whole = {"upstreams": "http://model:1", "protocol": "json"} | BESIDE.get(key, {})
    rest = {name: told for name, told in whole.items() if name != key}
    path = tmp_path / "routes.toml"
    settings = by_file(path, rest | {key: text}, {})
    assert getattr(settings, key) != getattr(by_file(path, whole, {}), key)
    variable = {f"ADAPTIVE_BATCHING_ROUTES_R_{key.upper()}": text}
    assert by_file(path, whole, variable) == settings
    if key not in OPTIONS:
        assert key == "prefix"  # a single route has all paths
        return
    arguments = [option for name, told in rest.items() for option in as_options(name, told)]
    assert by_options([*arguments, *as_options(key, text)]) == settings
    multiple = OPTIONS[key].multiple
    name = OPTIONS[key].envvar if multiple else f"ADAPTIVE_BATCHING_{key.upper()}"
    monkeypatch.setenv(name, text.replace(",", " ") if multiple else text)
    assert by_options(arguments) == settings
