"""Options and the life of commands that listen for requests until a signal stops them."""

import asyncio
import importlib.util
import logging
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import click
import msgspec

from adaptive_batching.cli.endings import forget_output
from adaptive_batching.cli.options.admin import AdminOptions
from adaptive_batching.cli.options.declared import Command, gather_options
from adaptive_batching.cli.options.environment import as_said
from adaptive_batching.cli.options.rules import excludes
from adaptive_batching.errors import BatchingError, ConfigError
from adaptive_batching.marshal.admin.operated import Operated
from adaptive_batching.marshal.config.quantities import Delay, Port, means
from adaptive_batching.marshal.http.run import run_until_told
from adaptive_batching.marshal.http.server.client_tls import ClientTls
from adaptive_batching.marshal.http.server.sockets import ListenError, bound_sockets, passed_socket
from adaptive_batching.workers.external.named_socket import NamedSocket
from adaptive_batching.workers.external.socket_path import check_path

P = TypeVar("P", bound=Operated)
_log = logging.getLogger("adaptive_batching")
# All addresses of this machine, and a name whose address another may be.
_OVERLAPPING = {"0.0.0.0", "::", "localhost"}  # noqa: S104  they are only compared


class Listening(msgspec.Struct, frozen=True):
    """Where a program listens, and how it ends."""

    host: Annotated[str, means("Address to listen on.", section="Listening")] = "127.0.0.1"
    port: Annotated[
        Port, means("Port to listen on; 0 takes a free one.", section="Most needed")
    ] = 8000
    unix_socket: Annotated[
        str | None,
        means(
            "Unix socket to listen on instead. Every user of this machine may connect unless the "
            "rights of its directory forbid it.",
            metavar="PATH",
            section="Listening",
        ),
    ] = None
    reuse_port: Annotated[
        bool, means("Let other processes listen on the same port too, for a rolling restart.")
    ] = False
    tls_cert: Annotated[
        Path | None,
        means(
            "PEM file of the certificate for TLS, with the chain to its authority; read again at "
            "SIGHUP."
        ),
    ] = None
    tls_key: Annotated[
        Path | None,
        means(
            "PEM file of the certificate's key, if --tls-cert does not hold it; without a password."
        ),
    ] = None
    tls_client_ca: Annotated[
        Path | None,
        means("PEM file of authorities; clients need a certificate that one of them has signed."),
    ] = None
    drain_delay: Annotated[
        Delay,
        means(
            "Time after the first signal in which connections are still accepted, while /readyz "
            "answers 503."
        ),
    ] = Delay(0.2)
    drain_timeout: Annotated[Delay, means("Time that the last requests have to end.")] = Delay(30.0)
    uvloop: Annotated[
        bool | None,
        means("Event loop. Default: uvloop if it is installed.", option="--uvloop/--no-uvloop"),
    ] = None


def listening_options(command: Command) -> Command:
    """Add the options of a listener to a command, as the argument `listening`."""
    rules = [excludes("unix_socket", "host", "port", "reuse_port")]
    return gather_options(command, "listening", Listening, "Listening", rules)


def serve_until_told(
    program: P,
    listening: Listening,
    admin: AdminOptions,
    addresses: Callable[[P], Iterable[str]],
    cpus: Collection[int] | None = None,
) -> None:
    """Run a program on a loop; errors become a sentence and an exit status.

    Args:
        program: What is run.
        listening: Where, and how it ends.
        admin: Where operators look.
        addresses: Returns the lines that say where it is, printed once requests are answered.
        cpus: The cores that this process keeps to.
    """

    def announce(program: P) -> None:
        try:
            for line in addresses(program):
                click.echo(line)
        except OSError as error:  # it goes on without a standard output
            forget_output()
            _log.warning("%s is ready; standard output can't be written: %s", program.url, error)

    tls = _tls(listening)
    loop = loop_factory(wanted=listening.uvloop)
    try:
        with _bound(listening, admin) as bound, asyncio.Runner(loop_factory=loop) as runner:
            runner.run(
                run_until_told(
                    program,
                    listening.host,
                    listening.port,
                    bound=bound,
                    drain_delay=listening.drain_delay,
                    drain_timeout=listening.drain_timeout,
                    on_ready=announce,
                    cpus=cpus,
                    tls=tls,
                )
            )
    except ListenError as error:
        if error.unresolved:
            name = "host" if error.host == listening.host else "admin_host"
            hint = as_said(click.get_current_context(), name)
            raise click.BadParameter(str(error), param_hint=hint) from error
        raise click.ClickException(str(error)) from error
    except BatchingError as error:
        raise click.ClickException(str(error)) from error


def check_listening(listening: Listening, admin: AdminOptions) -> None:
    """Check the options of a listener as far as that works without opening it.

    Raises:
        UsageError: What was said can't be, or not together.
    """
    _tls(listening)
    if listening.unix_socket is None:
        _check_apart(listening, admin)
    else:
        _check_socket(listening.unix_socket)


def _tls(listening: Listening) -> ClientTls | None:
    """Return the TLS of the listener; None for plain HTTP."""
    certificate = listening.tls_cert
    if certificate is None:
        if listening.tls_key is not None or listening.tls_client_ca is not None:
            raise click.UsageError("expected --tls-cert with --tls-key and --tls-client-ca")
        return None
    try:
        return ClientTls(certificate, listening.tls_key, listening.tls_client_ca)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


@contextmanager
def _bound(listening: Listening, admin: AdminOptions) -> Iterator[socket.socket | None]:
    """Yield a passed, Unix or shared socket and close it at the end; None for host and port."""
    passed = passed_socket()
    if passed is not None:
        yield passed
    elif listening.unix_socket is not None:
        _check_socket(listening.unix_socket)
        with closing(NamedSocket(listening.unix_socket, shared=True)) as named:
            yield named.socket
    else:
        _check_apart(listening, admin)
        if not listening.reuse_port:
            yield None
            return
        shared, *others = bound_sockets(listening.host, listening.port, shares_port=True)
        for each in others:
            each.close()
        yield shared


def _check_socket(path: str) -> None:
    try:
        check_path(path)
    except ValueError as error:
        hint = as_said(click.get_current_context(), "unix_socket")
        raise click.BadParameter(str(error), param_hint=hint) from error


def _check_apart(listening: Listening, admin: AdminOptions) -> None:
    """Check that clients and operators have different ports.

    Raises:
        UsageError: They do.
    """
    hosts = {listening.host, admin.admin_host}
    if admin.admin_port == listening.port > 0 and (len(hosts) == 1 or hosts & _OVERLAPPING):
        option = as_said(click.get_current_context(), "admin_port")
        msg = f"{option}: expected another port than --port, where clients come"
        raise click.UsageError(f"{msg}, got {listening.port} for both")


def loop_factory(*, wanted: bool | None) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of uvloop if it is installed or wanted; None for asyncio's loop."""
    if wanted is False or (wanted is None and importlib.util.find_spec("uvloop") is None):
        return None
    try:
        import uvloop  # noqa: PLC0415  an extra
    except ModuleNotFoundError:
        hint = "uvloop is not installed: pip install uvloop"
        raise click.UsageError(hint) from None
    return uvloop.new_event_loop
