"""Routes in a file: what it may say, who is told what is wrong with it, and how it is read anew."""

import asyncio
import itertools
import json
import re

import aiohttp
import pytest
import trustme
from click.testing import CliRunner

from adaptive_batching.cli import main
from adaptive_batching.errors import ConfigError, UsageError
from adaptive_batching.marshal.config.routes_file import RoutesFile, read_routes
from adaptive_batching.marshal.sidecar.runner import SidecarRunning
from tests.workers.conditions import until

DIGITS = """
[routes.digits]
prefix = "/v1/models/digits"
upstreams = ["http://127.0.0.1:1", "unix:/run/model.sock"]
protocol = "tensorflow"
max_latency = "100ms"
max_body = "64KiB"
partition_by = ["x-tenant"]
"""
PACKED = """
[routes.packed]
upstreams = ["http://127.0.0.1:1"]
protocol = "packed"
"""
JSON = """
[routes.json]
upstreams = ["http://127.0.0.1:1"]
protocol = "json"
"""


@pytest.fixture
def written(tmp_path):
    """Write a file of routes and say where it is."""

    def write(text):
        fresh = tmp_path / "fresh.toml"
        fresh.write_text(text)
        return fresh.replace(tmp_path / "routes.toml")

    return write


def test_what_a_file_says(written):
    """Quantities with their units; what is not said is as on the command line."""
    [route] = read_routes(written(DIGITS), {})
    assert (route.name, route.prefix) == ("digits", "/v1/models/digits")
    assert [*map(str, route.servers)] == ["http://127.0.0.1:1", "unix:/run/model.sock"]
    assert (route.terms.max_latency, route.terms.max_body) == (0.1, 65536)
    assert route.timeout == 60


def test_the_environment_is_stronger(written):
    """It says the same things in the same words."""
    said = {
        "ADAPTIVE_BATCHING_ROUTES_DIGITS_MAX_LATENCY": "5ms",
        "ADAPTIVE_BATCHING_ROUTES_DIGITS_CONCURRENCY": "4",
        "ADAPTIVE_BATCHING_ROUTES_DIGITS_IDEMPOTENT": "false",
        "ADAPTIVE_BATCHING_ROUTES_DIGITS_UPSTREAMS": "http://10.0.0.1:1,http://10.0.0.2:1",
    }
    [route] = read_routes(written(DIGITS), said)
    assert (route.terms.max_latency, route.concurrency, route.idempotent) == (0.005, 4, False)
    assert [*map(str, route.servers)] == ["http://10.0.0.1:1", "http://10.0.0.2:1"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at least one table"),
        ("[routes", "expected TOML"),
        ("port = 1\n" + DIGITS, "routes.NAME. only, got port"),
        (
            DIGITS + "max_latncy = 1",
            "digits: unknown field 'max_latncy': expected such as max_latency",
        ),
        (DIGITS + "x = 1", "digits: unknown field 'x': expected some of upstreams, protocol, pre"),
        (DIGITS + "concurrency = 'many'", "digits.concurrency: expected an integer, got 'many'"),
        (DIGITS + "concurrency = 0", "routes.digits.concurrency: expected an integer >= 1, got 0"),
        (DIGITS + "idempotent = 'no'", "digits.idempotent: expected true or false, got 'no'"),
        (JSON.replace("['", "'").replace('["', '"').replace('"]', '"'), "a list, got 'http:"),
        (DIGITS + "priority_header = ''", "digits.priority_header: expected the name of a header"),
        (
            DIGITS + "tenant_weights = ['gold=1', 'gold=9']",
            "digits.tenant_weights: expected one weight for gold, got 1 and 9",
        ),
        (DIGITS + "timeout = 5", "routes.digits.timeout: expected a duration with a unit.* got 5$"),
        (DIGITS + "timeout = '5'", "routes.digits.timeout: expected a duration.* got '5'$"),
        (DIGITS + "verify = 0.5", "routes.digits.verify: expected a percentage.* got 0.5$"),
        (DIGITS + "max_answer = true", "digits.max_answer: expected a number of bytes.* got True$"),
        (DIGITS + "max_batch_size = '64'", "digits.max_batch_size: expected an int.* got '64'$"),
        (DIGITS + "timeout = 'nan s'", "routes.digits.timeout: expected"),
        (DIGITS + "max_answer = '-1'", "routes.digits.max_answer: expected a number of bytes"),
        (DIGITS + "items = '/x'", "routes.digits.items: expected it with bentoml or json"),
        (DIGITS + "policy = 'best'", "routes.digits.policy: expected one of .*, got 'best'"),
        (
            DIGITS + "policy = 'tests.marshal.config.broken_policy:Own'",
            "routes.digits.policy: 'tests.*' can't be made: ZeroDivisionError: .*, line 3\\)",
        ),
        (DIGITS + "policy = 'window:x'", "digits.policy: 'window:x': expected a dur.*, got 'x'"),
        (
            DIGITS.replace("/digits", "/digits?x=1"),
            "digits.prefix: expected a path that begins with",
        ),
        (DIGITS.replace('"/v1', '"v1'), "prefix: expected .* begins with /.* got 'v1/models/dig"),
        (DIGITS.replace("/digits", "/ x"), "prefix: expected .* no space .* got '/v1/models/ x"),
        (DIGITS.replace("/digits", r"/\n"), r"prefix: expected .* no space .* got '/v1/models/\\n"),
        (DIGITS.replace("x-tenant", "Accept-Encoding"), "got 'Accept-Encoding': .* for identity"),
        (DIGITS.replace("x-tenant", "Expect"), "got 'Expect': the sidecar itself answers it"),
        (DIGITS.replace("x-tenant", "X-Request-Timeout-Ms"), "told the longest time that is left"),
        (DIGITS.replace("x-tenant", "adaptive-batching-packed"), "packed, which no client may"),
        (DIGITS.replace("x-tenant", "Content-Type"), "partition_by: .* client, got 'Content-Type'"),
        (DIGITS.replace("x-tenant", "te"), "partition_by: .* of the client, got 'te'"),
        (DIGITS + "shared_headers = ['TE']", "shared_headers: .* of the client, got 'TE'"),
        (
            DIGITS.replace("x-tenant", "Accept") + "shared_headers = ['accept']",
            "routes.digits.shared_headers: .* not in partition_by as well, got 'accept'",
        ),
        (DIGITS + "secret_file = '/nowhere'", "routes.digits.secret_file: .*No such file"),
        (DIGITS + "upstreams = []", "Cannot overwrite a value"),
        (DIGITS.replace("100ms", "0ms"), "routes.digits.max_latency: expected a positive number"),
        (DIGITS + "timeout = '0s'", "routes.digits.timeout: expected a positive number"),
        (DIGITS + "body_timeout = '0s'", "routes.digits.body_timeout: expected a positive number"),
        (DIGITS + "verify = '200%'", "routes.digits.verify: expected at most 100%, got '200%'"),
        (DIGITS + "verify = '1%'\nidempotent = false", "routes.digits.verify: expected idempot"),
        (DIGITS + "ageing = '1s'", "routes.digits.ageing: expected a priority header as well"),
        (
            DIGITS.replace("http://127.0.0.1:1", "127.0.0.1"),
            "routes.digits.upstreams: expected http",
        ),
        (DIGITS + DIGITS.replace("digits]", "more]"), "more.prefix: .*that of routes.digits"),
        (
            DIGITS + DIGITS.replace("digits]", "more]").replace('/digits"', '/digits/"'),
            "more.prefix: .*that of routes.digits, got '/v1/models/digits/'",
        ),
        (DIGITS.replace("digits]", "other]"), "routes.other: expected another name"),
        (DIGITS.replace("digits]", "'a b']"), "routes.a b: expected a table with a name"),
        (DIGITS.replace("x-tenant", "a b"), "routes.digits.partition_by: .* header.*'a b'"),
        (DIGITS + "priority_header = 'a:'", "routes.digits.priority_header: .* header.*'a:'"),
        (DIGITS + "cost = 'words'", "routes.digits.cost: expected bytes, chars, or .* got 'words'"),
        (DIGITS + "cost = '/a~2'", "routes.digits.cost: expected a JSON pointer .* got '/a~2'"),
        (
            DIGITS.replace("tensorflow", "open-inference") + "cost = 'chars'",
            "routes.digits.cost: expected bytes with open-inference, .* got 'chars'",
        ),
        (DIGITS + "sizes = '4,2'", "digits.sizes: .*such as 1,2,4,8, got '4,2'"),
        (DIGITS + "sizes = []", r"digits.sizes: .*such as 1,2,4,8, got \[\]"),
        (
            DIGITS + "sizes = '1,8'\nmax_batch_size = 4",
            r"digits.max_batch_size: expected one of sizes=\[1, 8\], or to be left out .*, got 4",
        ),
        (DIGITS + "pad_to_sizes = true", "digits.pad_to_sizes: expected sizes as well"),
        (
            DIGITS + "sizes = '1,8'\npad_to_sizes = true\nidempotent = false",
            "digits.pad_to_sizes: expected idempotent requests",
        ),
        (
            PACKED + "sizes = '1,8'\npad_to_sizes = true",
            "packed.pad_to_sizes: expected a protocol with rows, got packed",
        ),
        (
            DIGITS + "max_batch_cost = 9",
            "digits.max_batch_cost: expected cost .--cost. .*, got 9 alone",
        ),
        (DIGITS + "max_batch_cost = 0\ncost = 'chars'", "max_batch_cost: .*>= 1, got 0"),
        (DIGITS + "padded = false", "routes.digits.padded: expected cost .*, got false alone"),
        (DIGITS + "padded = true", "routes.digits.padded: expected cost .--cost. beside it"),
        (
            DIGITS + "cost = 'chars'\nlatency_from = '/dev/null'",
            "routes.digits.latency_from: expected what `fit --save` wrote",
        ),
        (DIGITS + "results = '/x'", "routes.digits.results: expected it with json or msgpack"),
        (DIGITS + "packed_path = '/x'", "routes.digits.packed_path: expected it with packed only"),
        (DIGITS + "upstream_ca = '/nowhere'", "routes.digits.upstream_ca: .*No such file"),
        (DIGITS + "upstream_cert = '/nowhere'", "routes.digits.upstream_cert: .*No such file"),
        (DIGITS + "upstream_ca = '/dev/null'", "routes.digits.upstream_ca: expected a PEM file"),
        (
            DIGITS.replace("unix:/run/model.sock", "http://127.0.0.1:1/"),
            "routes.digits.upstreams: expected each server once, got http://127.0.0.1:1 again",
        ),
        (DIGITS.replace("tensorflow", "grpc"), "routes.digits.protocol: expected one of"),
        (PACKED + "packed_path = 'x'", "routes.packed.packed_path: expected a path"),
        (JSON + "items = 'x'", "routes.json.items: expected a JSON pointer"),
        (JSON + "items = '/a~2'", "routes.json.items: expected a JSON pointer"),
        (JSON + "results = 'x'", "routes.json.results: expected a JSON pointer"),
        ("[routes.x]\nprotocol = 'json'", "routes.x.upstreams: expected a list.*, got nothing$"),
        ("[routes.x]\nupstreams = ['http://m:1']", "x.protocol: expected a text, got nothing$"),
    ],
)
def test_t16_what_is_wrong_is_named(written, text, told):
    """The key above all; check-config says the same and ends with 1."""
    path = written(text)
    with pytest.raises(ConfigError, match=told):
        read_routes(path, {})
    result = CliRunner().invoke(main, ["check-config", str(path)])
    assert result.exit_code == 1
    assert re.search(told, result.stderr)
    result = CliRunner().invoke(main, ["sidecar", "--config", str(path)])
    assert result.exit_code == 2


def test_certificates_of_no_use(written, tmp_path):
    """Whoever names one thinks that the way to the server is encrypted."""
    authority = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(authority)
    said = f"{DIGITS}upstream_ca = '{authority}'"
    with pytest.raises(ConfigError, match="upstream_ca: expected a server with https:// as"):
        read_routes(written(said), {})
    [route] = read_routes(written(said.replace("http://127.0.0.1:1", "https://127.0.0.1:1")), {})
    assert route.tls is not None


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--upstream", "127.0.0.1:1", "expected http://HOST:PORT"),
        ("--items", "inputs", "expected a JSON pointer"),
        ("--results", "outputs", "expected a JSON pointer"),
        ("--packed-path", "/x", "expected it with packed only, got it with json"),
        ("--upstream-ca", "/dev/null", "expected a PEM file of certificates"),
        ("--upstream-cert", "/dev/null", "expected a PEM file of a certificate and its key"),
        ("--timeout", "0s", "expected a positive number of seconds"),
        ("--priority-header", "", "expected the name of a header, such as X-Tenant, got ''"),
        ("--partition-by", "a b", "expected the name of a header"),
        ("--shared-header", "Expect", "expected headers that the server is told as they came"),
    ],
)
def test_an_option_that_is_wrong_is_named(option, value, told):
    """As it is typed, not by the key that it is in a file."""
    options = ["--upstream=http://127.0.0.1:1", "--protocol=json", f"{option}={value}"]
    result = CliRunner().invoke(main, ["sidecar", *options])
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': {told}" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("DIGITS_CONCURRENCY", "many", "DIGITS_CONCURRENCY: expected an integer, got 'many'"),
        ("DIGITS_IDEMPOTENT", "maybe", "IDEMPOTENT: expected true or false, got 'maybe'"),
        ("DIGITS_MAX_LATENCY", "5", "_DIGITS_MAX_LATENCY: expected a duration.* got '5'$"),
        (
            "DIGITS_MAX_LATNCY",
            "5ms",
            "_MAX_LATNCY: routes.digits: unknown .*'MAX_LATNCY': expected such as MAX_LATENCY",
        ),
        ("DIGITS_X", "1", "routes.digits: unknown field 'X': expected some of UPSTREAMS, PROTOCOL"),
        ("FACES_TIMEOUT", "1s", "NAME is one of DIGITS, got 'FACES_TIMEOUT'$"),
        ("DIGITS", "1", "NAME is one of DIGITS, got 'DIGITS'$"),
    ],
)
def test_a_variable_that_is_wrong_is_named(written, variable, text, told):
    with pytest.raises(ConfigError, match=told):
        read_routes(written(DIGITS), {f"ADAPTIVE_BATCHING_ROUTES_{variable}": text})


def test_a_variable_of_two_routes(written):
    """Of which it is, nobody could say; what is in the file for each is all right."""
    one, other = DIGITS.replace("digits", "a-b"), DIGITS.replace("digits", "a_b")
    path = written(one + other)
    assert len(read_routes(path, {})) == 2
    variable = "ADAPTIVE_BATCHING_ROUTES_A_B_TIMEOUT"
    with pytest.raises(ConfigError, match=f"{variable}: .*, got routes.a-b.timeout and routes.a_b"):
        read_routes(path, {variable: "1s"})


def test_packed_requests_that_would_not_be_taken(written, caplog):
    """Over TCP without a secret the application has no reason to believe that they are ours."""
    for there, warnings in (("unix:/run/model.sock", 0), ("http://127.0.0.1:1", 1)):
        path = written(PACKED.replace("http://127.0.0.1:1", there))
        assert not CliRunner().invoke(main, ["check-config", str(path)]).exit_code
        assert caplog.text.count("packed: packed requests are taken from a Unix socket") == warnings


async def test_that_they_would_not_be_taken_is_in_the_log(written, caplog):
    """Once, and not before there is a log that looks as it was asked to."""
    running = SidecarRunning(RoutesFile(written(PACKED)))
    assert not caplog.records
    await running.start("127.0.0.1", 0)
    await running.stop(1.0)
    assert caplog.text.count("packed: packed requests are taken from a Unix socket") == 1


def test_check_config(written):
    """It says what would go where."""
    result = CliRunner().invoke(main, ["check-config", str(written(DIGITS))])
    assert result.exit_code == 0
    assert result.stdout == (
        "digits: /v1/models/digits to http://127.0.0.1:1 unix:/run/model.sock\n"
    )


def test_check_config_with_what_is_said_beside_the_file(written):
    """Weights of tenants whom nobody tells apart would end the sidecar as it starts."""
    path = str(written(DIGITS + "tenant_weights = ['gold=3']"))
    result = CliRunner().invoke(main, ["check-config", path])
    assert result.exit_code == 2
    assert "tenant_weights: expected --tenant-header" in result.stderr
    result = CliRunner().invoke(main, ["check-config", path, "--tenant-header=X-Tenant"])
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("MAX_PER_TENANT", "3", "--tenant-header as well, got"),
        ("TENANT_HEADER", "X Y", "expected the name of a header, such as X-Tenant, got 'X Y'"),
        ("MAX_LATENCY", "50ms", "in the file, got"),
        ("UPSTREAM", "http://x:1", "in the file, got"),
        ("PORT", "abc", "_PORT: expected a whole number from 0 to 65535, got 'abc'"),
        ("PORT", "1", "where the sidecar itself is to listen: say another --port"),
        ("ADMIN_PORT", "8000", "_ADMIN_PORT: expected another port than --port"),
        ("ADMIN_PORT", "1", "where the sidecar itself is to listen: say another --admin-port"),
        ("UNIX_SOCKET", "/" + "x" * 110, "_UNIX_SOCKET: expected the path"),
        ("TLS_KEY", "/x", "expected --tls-cert with --tls-key"),
        ("RECORD", "x=x.csv", "_RECORD: expected digits=FILE"),
        ("ROUTES_DIGITS_TIMEOUT", "1", "ROUTES_DIGITS_TIMEOUT: expected a duration"),
    ],
)
def test_check_config_reads_the_environment(written, variable, text, told):
    """What would end the sidecar as it starts is told beforehand."""
    variables = {f"ADAPTIVE_BATCHING_{variable}": text}
    arguments = ["check-config", str(written(DIGITS))]
    result = CliRunner(env=variables).invoke(main, arguments)
    assert result.exit_code
    assert told in " ".join(result.stderr.split())


def test_check_config_names_variables_that_mean_nothing(written, caplog):
    """In the log, as the sidecar does; its other options go through."""
    variables = {"ADAPTIVE_BATCHING_PROT": "1", "ADAPTIVE_BATCHING_CONFIG": "other.toml"}
    file = written(DIGITS.replace(":1", ":8000"))  # the default of --port, which isn't said here
    arguments = ["check-config", "--admin-port=9000", str(file)]
    assert not CliRunner(env=variables).invoke(main, arguments).exit_code
    assert [each.getMessage().partition(";")[0] for each in caplog.records] == [
        "ADAPTIVE_BATCHING_PROT means nothing here"
    ]


def test_a_file_is_not_mixed_with_options(written):
    """Which of the two would count, nobody could guess."""
    arguments = ["sidecar", "--config", str(written(DIGITS)), "--timeout=1s", "--protocol=json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "expected --protocol, --timeout in the file" in result.stderr
    result = CliRunner().invoke(main, ["sidecar", "--protocol=json"])
    assert "expected --upstream and --protocol, or --config" in result.stderr


@pytest.mark.parametrize(
    ("records", "told"),
    [
        (["out.csv"], "--record: expected digits=FILE or more=FILE, got 'out.csv'"),
        (["faces=out.csv"], "--record: expected digits=FILE or more=FILE, got 'faces=out.csv'"),
        (["digits="], "--record: expected a file, got 'digits='"),
        (["digits=a", "digits=b"], "--record: expected one file for digits, got two"),
        (["digits=a", "more=./a"], "--record: expected a file for each route, got ./a twice"),
    ],
)
def test_which_route_is_recorded_where_has_to_be_said(written, records, told):
    """One sentence, exit status 2, before anything is served."""
    more = DIGITS.replace("digits", "more")
    options = [f"--record={record}" for record in records]
    result = CliRunner().invoke(
        main, ["sidecar", "--config", str(written(DIGITS + more)), *options]
    )
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


# ------------------------------------------------------------------------------------ at work


def routes(model, **tables):
    """Routes to a model server, with what else each says."""
    return "".join(
        f'[routes.{name}]\nprotocol = "tensorflow"\nupstreams = ["{model.url}"]\n{said}\n'
        for name, said in tables.items()
    )


@pytest.fixture
async def at_work(written):
    """Start a sidecar with a file of routes."""
    started = []

    async def start(text):
        running = SidecarRunning(RoutesFile(written(text)), admin=("127.0.0.1", 0))
        await running.start("127.0.0.1", 0)
        started.append(running)
        return running

    yield start
    for running in started:
        await running.stop(1.0)


async def predict(session, running, name, *instances, headers=None):
    url = f"{running.url}/v1/models/{name}:predict"
    async with session.post(url, json={"instances": instances}, headers=headers) as response:
        return response.status, await response.json()


def gauge(running, name):
    """What Prometheus would read of the route m."""
    page = running.metrics.exposition("text/plain")[0].decode()
    [value] = re.findall(rf'^adaptive_batching_{name}\{{endpoint="m"\}} (\S+)$', page, re.MULTILINE)
    return float(value)


async def test_the_longest_prefix_counts(model, at_work):
    """Step by step of the path, and a verb is not part of a step; the rest is not found."""
    a, b = 'prefix = "/v1/models/a"', 'prefix = "/v1/models/a/versions"'
    running = await at_work(routes(model, a=a, b=b))
    async with aiohttp.ClientSession() as session:
        for path, status in (("/a/x", 200), ("/a/versions/1", 200), ("/ab", 404), ("/c", 404)):
            async with session.get(f"{running.url}/v1/models{path}") as response:
                assert response.status == status
        assert await predict(session, running, "a", 1) == (200, {"predictions": [2]})
        assert (await predict(session, running, "ab", 1))[0] == 404
    counted = {name: sum(each.values()) for name, each in running.metrics.responses.items()}
    assert counted == {"a": 2, "b": 1, "other": 3}


@pytest.mark.parametrize(
    ("said", "batches", "told"),
    [
        ("", {(1, 3), (2,)}, {"Bearer a", "Bearer b"}),
        ("shared_headers = ['authorization', 'Host']", {(1, 2, 3)}, {None}),
    ],
)
async def test_t8_named_headers_keep_requests_apart_besides_the_usual_ones(
    model, at_work, said, batches, told
):
    """Credentials still do, and are passed on; unless it is said that they may be shared."""
    shares_host = "Host" in said
    said += "\npolicy = 'window:1h'\npartition_by = ['X-Tenant', 'accept']"
    running = await at_work(routes(model, m=said))
    async with aiohttp.ClientSession(headers={"X-Tenant": "t"}) as session:
        visits = []
        for number, name in enumerate("aba", 1):
            own = {"Authorization": f"Bearer {name}"}
            visits.append(
                asyncio.ensure_future(predict(session, running, "m", number, headers=own))
            )
        await until(lambda: running.dispatchers["m"].stats().queued == 3)
        running.runtimes.flush()
        answers = [(await visit)[1]["predictions"] for visit in visits]
    assert answers == [[2], [4], [6]]
    assert {tuple(sorted(batch)) for batch in model.batches} == batches
    assert {headers["X-Tenant"] for headers in model.seen} == {"t"}
    assert {headers.get("Authorization") for headers in model.seen} == told
    host = model.url.authority if shares_host else running.url.removeprefix("http://")
    assert {headers["Host"] for headers in model.seen} == {host}


async def test_the_dashboard_shows_routes_of_a_file(model, at_work):
    """Their promises come with a unit, and are numbers in it."""
    running = await at_work(routes(model, m='max_latency = "100ms"', n='prefix = "/n"'))
    url = f"{running.admin_url}/debug/live"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert response.status == 200
        told = await response.json()
    promised = {each["name"]: each["max_latency"] for each in told["endpoints"]}
    assert promised == {"m": 0.1, "n": None}


async def test_f26_routes_change_and_no_request_is_dropped(model, at_work, written):
    """Those that wait under the old ones are answered under them, the next ones under the new."""
    running = await at_work(routes(model, m="policy = 'window:1h'", n='prefix = "/n"'))
    kept = running.dispatchers["n"]
    async with aiohttp.ClientSession() as session:
        waiting = asyncio.ensure_future(predict(session, running, "m", 1))
        await until(lambda: running.dispatchers["m"].stats().queued)
        written(routes(model, m="policy = 'greedy'", n='prefix = "/n"', o='prefix = "/o"'))
        await running.refresh()
        assert await predict(session, running, "m", 2) == (200, {"predictions": [4]})
        assert await waiting == (200, {"predictions": [2]})
    assert running.dispatchers["n"] is kept
    assert {*running.dispatchers} == {"m", "n", "o"}


async def test_what_was_learned_outlives_a_change_of_limits(model, at_work, written):
    """Who waits keeps his place, even in a batch that is larger than the new limit."""
    patient = "policy = 'window:1h'\nmax_batch_size = 4"
    running = await at_work(routes(model, m=patient))
    async with aiohttp.ClientSession() as session:
        for _ in range(3):  # a full batch leaves at once
            await predict(session, running, "m", 1, 2, 3, 4)
        dispatcher = running.dispatchers["m"]
        waiting = asyncio.ensure_future(predict(session, running, "m", 1, 2, 3))
        await until(lambda: dispatcher.stats().queued == 3)
        learned = dispatcher.stats()
        model.gate.clear()  # so that nothing more is learned until we have looked
        limits = "max_latency = '20s'\nmax_batch_size = 2\nmax_body = '1KiB'\ntimeout = '9s'"
        written(routes(model, m=f"{limits}\nprefix = '/v1'\npolicy = 'greedy'"))
        await running.refresh()
        await until(lambda: dispatcher.stats().running == 1)
        now = dispatcher.stats()
        assert running.dispatchers["m"] is dispatcher
        assert learned.fixed + learned.per_item > 0
        assert (now.fixed, now.per_item, now.batches) == (learned.fixed, learned.per_item, 3)
        assert now.per_worker[0].slowness == learned.per_worker[0].slowness
        assert gauge(running, "model_fixed_seconds") == learned.fixed
        assert gauge(running, "max_batch_size") == 2
        model.gate.set()
        assert await waiting == (200, {"predictions": [2, 4, 6]})
        await predict(session, running, "m", 1, 2, 3)
    assert sorted(map(len, model.batches[-2:])) == [1, 2]  # what comes now is cut


async def test_bodies_that_share_batches_are_those_of_the_new_file(model, at_work, written):
    """The route goes on all the same."""
    held = "policy = 'window:1h'\n"
    running = await at_work(routes(model, m=held))
    written(routes(model, m=f"{held}max_body = 1"))
    await running.refresh()
    async with aiohttp.ClientSession() as session:  # too large for a batch: it does not wait
        assert await predict(session, running, "m", 1) == (200, {"predictions": [2]})
    assert running.dispatchers["m"].stats().batches == 0


async def test_how_many_items_a_request_may_have_is_what_the_new_file_says(model, at_work, written):
    """It is cut, and its pieces have to find room in the queue that there is now."""
    small = "max_batch_size = 2\nmax_queue = "
    running = await at_work(routes(model, m=f"{small}4"))
    async with aiohttp.ClientSession() as session:
        status, answer = await predict(session, running, "m", *range(5))
        assert (status, answer["error"]) == (413, "too_many_items")
        written(routes(model, m=f"{small}8"))
        await running.refresh()
        status, answer = await predict(session, running, "m", *range(5))
        assert (status, answer) == (200, {"predictions": [2 * n for n in range(5)]})


def test_a_fitted_model_of_costs(written, tmp_path):
    """Its third coefficient is known from the beginning; one without it is of no use there."""
    known = {"table": [[1, 0.005], [8, 0.012]], "residuals": []}
    model = tmp_path / "model.json"
    model.write_text(json.dumps({**known, "per_cost": 1e-6, "padded": True, "mean_cost": 100}))
    said = f"{DIGITS}cost = 'chars'\nsizes = '8,16'\nlatency_from = '{model}'\n"
    [route] = read_routes(written(said), {})
    assert [(size, cost) for size, _, cost in route.rehearsed] == [
        *((8, cost) for cost in (400, 1200)),
        *((16, cost) for cost in (800, 2400)),
    ]
    assert route.rehearsed[1][1] == pytest.approx(0.012 + 1200e-6)
    model.write_text(json.dumps(known))
    told = "digits.latency_from: .* what a unit of cost takes, got one that does not: its recor"
    with pytest.raises(ConfigError, match=told):
        read_routes(written(said), {})


async def test_batches_are_filled_up_as_the_new_file_says(model, at_work, written):
    """The route goes on; one request before and one after."""
    running = await at_work(routes(model, m="sizes = '1,4'"))
    dispatcher = running.dispatchers["m"]
    async with aiohttp.ClientSession() as session:
        await predict(session, running, "m", 1, 2)
        written(routes(model, m="sizes = '1,3'\npad_to_sizes = true"))
        await running.refresh()
        assert await predict(session, running, "m", 1, 2) == (200, {"predictions": [2, 4]})
    assert model.batches == [[1, 2], [1, 2, 2]]
    assert running.dispatchers["m"] is dispatcher


async def test_with_other_costs_a_route_begins_anew(model, at_work, written):
    """Requests that wait are answered by the old one; another limit of costs alone is no reason."""
    running = await at_work(routes(model, m="policy = 'window:1h'"))
    before = running.dispatchers["m"]
    async with aiohttp.ClientSession() as session:
        waiting = asyncio.ensure_future(predict(session, running, "m", "a"))
        await until(lambda: before.stats().queued)
        written(routes(model, m="cost = 'chars'"))
        await running.refresh()
        assert await waiting == (200, {"predictions": ["aa"]})
        dispatcher = running.dispatchers["m"]
        assert dispatcher is not before
        assert await predict(session, running, "m", "ab", "abc") == (
            200,
            {"predictions": ["abab", "abcabc"]},
        )
        written(routes(model, m="cost = 'chars'\nmax_batch_cost = 4"))
        await running.refresh()
        assert running.dispatchers["m"] is dispatcher
        await predict(session, running, "m", "ab", "abc")
    assert [sorted(batch) for batch in model.batches[:2]] == [["a"], ["ab", "abc"]]
    assert sorted(model.batches[2:]) == [["ab"], ["abc"]]


async def test_with_other_servers_a_route_begins_anew(model, at_work, written):
    """What was learned of the ones says nothing of the others."""
    running = await at_work(routes(model, m=""))
    first = running.dispatchers["m"]
    async with aiohttp.ClientSession() as session:
        await predict(session, running, "m", 1)
        written(routes(model, m="concurrency = 2"))
        await running.refresh()
        assert running.dispatchers["m"] is not first
        assert running.dispatchers["m"].stats().per_item == 0
        assert await predict(session, running, "m", 1) == (200, {"predictions": [2]})


async def test_f26_under_load(model, at_work, written):
    """Ten times, and whoever asks meanwhile gets his answer."""
    running = await at_work(routes(model, m=""))
    over = asyncio.Event()
    answers = []

    async def visit(session):
        while not over.is_set():
            answers.append(await predict(session, running, "m", 21, 21, 21))

    async with aiohttp.ClientSession() as session:
        visitors = [asyncio.create_task(visit(session)) for _ in range(8)]
        for size in range(1, 11):
            written(routes(model, m=f"max_batch_size = {size}"))
            await running.refresh()
            seen = len(answers)
            await until(lambda seen=seen: len(answers) > seen + 10)
        over.set()
        await asyncio.gather(*visitors)
    assert all(answer == (200, {"predictions": [42, 42, 42]}) for answer in answers)
    assert max(map(len, itertools.islice(reversed(model.batches), 5))) <= 10


@pytest.mark.parametrize("which", ["url", "admin_url"])
async def test_a_new_file_does_not_name_the_sidecar_as_a_server(model, at_work, written, which):
    """Requests would go round, or meet the pages of operators; all is as before."""
    running = await at_work(routes(model, m=""))
    own = getattr(running, which)
    other = routes(model, n='prefix = "/n"').replace(str(model.url), own.rstrip("/"))
    written(routes(model, m="") + other)
    with pytest.raises(UsageError, match="where the sidecar itself is to listen"):
        await running.refresh()
    assert {*running.dispatchers} == {"m"}


async def test_a_file_that_is_wrong_changes_nothing(model, at_work, written):
    """Whoever wrote it is told, and requests go on."""
    running = await at_work(routes(model, m=""))
    written(routes(model, m="max_batch_size = 0"))
    with pytest.raises(ConfigError, match=r"routes\.m\.max_batch_size"):
        await running.refresh()
    async with aiohttp.ClientSession() as session:
        assert await predict(session, running, "m", 1) == (200, {"predictions": [2]})


async def test_a_file_that_was_written_is_noticed(model, at_work, written):
    """Nobody has to send a signal; Kubernetes replaces files under our feet."""
    running = await at_work(routes(model, m=""))
    written(routes(model, m="", o='prefix = "/o"'))
    await until(lambda: "o" in running.dispatchers)


@pytest.mark.parametrize(("said", "largest"), [("", 128), ("max_batch_size = 8\n", 8)])
def test_sizes_bound_batches(written, said, largest):
    """No batch holds more than the largest of them, or than the one that is said."""
    path = written(DIGITS + f"sizes = '1,8,128'\n{said}")
    [route] = read_routes(path, {})
    assert (route.limits.max_batch_size, route.limits.sizes) == (largest, (1, 8, 128))
