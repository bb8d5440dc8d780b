"""What the options of a sidecar and their variables come to, before it starts."""

import pytest
from click.testing import CliRunner

from adaptive_batching.cli.commands.sidecar import command
from adaptive_batching.cli.options.environment import warn_of_unknown

AS_THE_AGENT = ["--compat=kserve-agent"]


@pytest.mark.parametrize(
    ("said", "upstreams", "port"),
    [
        ([], ("http://127.0.0.1:8080",), 9081),
        (["-component-port", "81", "-port=82"], ("http://127.0.0.1:81",), 82),
        (["--upstream=http://model:80"], ("http://model:80",), 9081),
        (["--upstream", "unix:/run/m.sock"], ("unix:/run/m.sock",), 9081),
        (["--component-port=81", "--upstream=http://model:80"], ("http://model:80",), 9081),
        (["--upstream=http://a:1", "-component-port", "81"], ("http://a:1",), 9081),
        (["--enable-batcher"], ("http://127.0.0.1:8080",), 9081),
    ],
)
def test_what_is_said_takes_the_place_of_what_kserves_agent_does(said, upstreams, port):
    """Batches for one server must not go to another one as well."""
    params = command.make_context("sidecar", [*AS_THE_AGENT, *said]).params
    assert params["upstreams"] == upstreams
    assert (params["port"], params["host"], params["protocol"]) == (port, "0.0.0.0", "kserve-v1")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            ["--max-batchsize", "0"],
            "--max-batchsize: expected a whole number from 1 to 1000000000, got '0'",
        ),
        (
            ["-max-batchsize=x"],
            "for -max-batchsize: expected a whole number from 1 to 1000000000, got 'x'",
        ),
        (["--timeout=x"], "Invalid value for '--timeout': "),
        (["--component-port=x"], "--component-port: expected a port, got 'x'"),
        (["--enable-batcher=false"], "--enable-batcher: expected true, for this is a batcher"),
    ],
)
def test_flags_of_kserves_agent_are_named_as_they_are_typed(said, told):
    """Whoever types them may know no other ones."""
    result = CliRunner().invoke(command, [*AS_THE_AGENT, *said])
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())


def test_a_variable_is_stronger_than_what_kserves_agent_does(monkeypatch):
    """As it is stronger than any default."""
    monkeypatch.setenv("ADAPTIVE_BATCHING_UPSTREAM", "http://model:80")
    params = command.make_context("sidecar", AS_THE_AGENT).params
    assert params["upstreams"] == ("http://model:80",)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("MAX_BATCH_SIZE", "abc", "{}: expected a whole number from 1 to 1000000000, got 'abc'"),
        ("ADMIN_PORT", "abc", "{}: expected a whole number from 0 to 65535, got 'abc'"),
        ("CONCURRENCY", "0", "{}: expected a whole number from 1 to 1000, got '0'"),
        ("IDEMPOTENT", "maybe", "value for {}: expected true or false, got 'maybe'"),
        ("REUSE_PORT", "2", "value for {}: expected true or false, got '2'"),
        ("UVLOOP", "maybe", "value for {}: expected true or false, got 'maybe'"),
        ("PORT", "tcp://10.0.0.1:80", "for {}: expected a whole number from 0 to 65535, got 'tcp:"),
        ("PORT", "tcp://10.0.0.1:80", "got 'tcp://10.0.0.1:80'; it is what Kubernetes says"),
        ("UPSTREAM", "m:1", "value for {}: expected http://HOST:PORT"),
        ("TENANT_WEIGHT", "gold", "value for {}: expected a tenant and its positive weight"),
        ("UNIX_SOCKET", "x" * 110, "value for {}: expected the path of a socket"),
        ("ADMIN_HOST", "::", "{}: expected --admin-port as well"),
        ("RECORD", "a=b", "{}: expected json=FILE"),
    ],
)
def test_a_variable_that_is_wrong_is_named(name, text, told):
    """The option that it stands for was never typed."""
    variable = f"ADAPTIVE_BATCHING_{name}"
    whole = ["--protocol=json", *([] if name == "UPSTREAM" else ["--upstream=http://m:1"])]
    result = CliRunner(env={variable: text}).invoke(command, whole)
    assert result.exit_code == 2
    assert told.format(variable) in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "PROT",
            "ADAPTIVE_BATCHING_PROT means nothing here; expected such as ADAPTIVE_BATCHING_PORT",
        ),
        ("TENANT_WEIGHTS", "expected such as ADAPTIVE_BATCHING_TENANT_WEIGHT"),
        ("ROUTES_M_TIMEOUT", "ADAPTIVE_BATCHING_ROUTES_M_TIMEOUT means nothing without --config"),
    ],
)
def test_a_variable_that_means_nothing_is_named(name, told, caplog):
    """Whoever misspelt it would look for the mistake elsewhere."""
    context = command.make_context("sidecar", [])
    warn_of_unknown(context, {f"ADAPTIVE_BATCHING_{name}": "9"}, of_a_file=False)
    assert told in caplog.text


def test_other_variables_are_let_alone(caplog):
    """Those of options and of routes in a file, and what Kubernetes says of services."""
    names = ("PORT", "UPSTREAM", "TENANT_WEIGHT", "RECORD", "SHARED_HEADER", "MAX_QUEUE", "COMPAT")
    names += ("SERVICE_HOST", "X_SERVICE_PORT_HTTP", "X_PORT_80_TCP_ADDR", "ROUTES_M_TIMEOUT")
    environment = dict.fromkeys([f"ADAPTIVE_BATCHING_{name}" for name in names], "9")
    environment |= {"ADAPTIVE_BATCHING_X_PORT": "tcp://10.0.0.1:80", "ADAPTIVE": "1"}
    context = command.make_context("sidecar", [])
    warn_of_unknown(context, environment, of_a_file=True)
    assert not caplog.records


def test_a_typed_option_takes_the_place_of_variables():
    """An image sets host and port by variables; a socket that is typed is stronger."""
    variables = {"ADAPTIVE_BATCHING_HOST": "0.0.0.0", "ADAPTIVE_BATCHING_PORT": "1"}
    whole = ["--protocol=json", "--upstream=http://m:1"]
    too_long = "--unix-socket=" + "x" * 110
    typed = CliRunner(env=variables).invoke(command, [*whole, too_long])
    assert "expected the path of a socket" in typed.output
    variables["ADAPTIVE_BATCHING_UNIX_SOCKET"] = "/tmp/s"
    result = CliRunner(env=variables).invoke(command, whole)
    assert "expected it instead of ADAPTIVE_BATCHING_HOST" in result.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--unix-socket=/tmp/s", "--port=1", "--reuse-port"],
            "--unix-socket: expected it instead of --port, --reuse-port, got both",
        ),
        (["--unix-socket=/tmp/s", "--host=::"], "instead of --host, got both"),
        (
            ["--reuse-port", "--port=8124", "--admin-port=8124"],
            "--admin-port: expected another port than --port, where clients come, got 8124",
        ),
        (
            ["--record=nope=x.csv"],
            "--record: expected json=FILE, got 'nope=x.csv', and there is no 'nope'",
        ),
        (["--host=0.0.0.0", "--port=9", "--admin-port=9"], "expected another port than --port"),
        (["--admin-host=::"], "--admin-host: expected --admin-port as well, got it alone"),
        (["--max-per-tenant=2"], "--max-per-tenant: expected --tenant-header as well"),
        (["--admin-port=x"], "'--admin-port': expected a whole number from 0 to 65535, got 'x'"),
        (
            ["--tenant-header="],
            "'--tenant-header': expected the name of a header, such as X-Tenant",
        ),
        (["--upstream=http://m:1/"], "'--upstream': expected each server once, got http://m:1"),
        (["--padded"], "'--padded': expected cost (--cost) beside it"),
        (["--sizes="], "'--sizes': expected items of batches, each more than the one before"),
        (
            ["--sizes=1,99999999999"],
            "and none above 2^31, such as 1,2,4,8, got '1,99999999999'",
        ),
        (
            ["--port=0", "--admin-port=0", "--admin-host=nosuch.invalid"],
            "--admin-host: can't listen on nosuch.invalid port 0",
        ),
    ],
)
def test_options_that_would_be_of_no_use(options, told):
    """They are named, not ignored, before anything is served."""
    whole = ["--upstream=http://m:1", "--protocol=json", *options]
    result = CliRunner().invoke(command, whole)
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())


def test_the_help_begins_with_what_most_need():
    """Options stand in sections; a bound that only guards against slips is not shown."""
    shown = CliRunner().invoke(command, ["--help"]).output
    needed = shown.partition("Most needed:")[2].partition("\n\n")[0]
    for option in ("--upstream", "--protocol", "--max-latency", "--port"):
        assert f"  {option} " in needed
    assert shown.index("Most needed:") < shown.index("Batching:") < shown.index("Listening:")
    assert "1000000000" not in shown
