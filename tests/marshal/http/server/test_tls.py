"""Clients that come by TLS, with certificates that are made for the occasion."""

import asyncio
import signal
import ssl

import aiohttp
import pytest
import trustme
from click.testing import CliRunner

from adaptive_batching.cli import main
from adaptive_batching.errors import ConfigError, SettingError
from adaptive_batching.marshal.http.server.client_tls import ClientTls
from adaptive_batching.marshal.sidecar.upstream.tls import tls_context
from tests.marshal.sidecar.test_runner import ended, running


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def pem(authority, tmp_path):
    """Write a new certificate for localhost, and its key, and say where they are."""

    def write(name="server", signed_by=authority):
        certificate, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        issued = signed_by.issue_cert("localhost", "127.0.0.1")
        certificate.write_bytes(issued.cert_chain_pems[0].bytes())
        key.write_bytes(issued.private_key_pem.bytes())
        return certificate, key

    return write


def trusting(authority, *own):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if own:
        context.load_cert_chain(*own)
    return context


async def predict(url, context):
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{url}/v1/models/m:predict", json={"instances": [21]}, ssl=context
        ) as response,
    ):
        return (await response.json())["predictions"]


async def served(url, authority):
    """The certificate that a new connection is shown."""
    host, port = url.removeprefix("https://").split(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=trusting(authority))
    shown = writer.get_extra_info("peercert")["serialNumber"]
    version = writer.get_extra_info("ssl_object").version()
    writer.close()
    return shown, version


@pytest.mark.parametrize("loop", ["--uvloop", "--no-uvloop"])
async def test_clients_come_by_tls(model, authority, pem, loop):
    """They are answered as ever, and told apart from those who speak plainly; a certificate that
    was renewed is shown from SIGHUP on, and one that is broken changes nothing.
    """
    certificate, key = pem()
    options = [f"--upstream={model.url}", f"--tls-cert={certificate}", f"--tls-key={key}", loop]
    async with running(*options, stderr=asyncio.subprocess.PIPE) as (process, url):
        assert url.startswith("https://")
        assert await predict(url, trusting(authority)) == [42]
        first, version = await served(url, authority)
        assert version in {"TLSv1.2", "TLSv1.3"}
        with pytest.raises(aiohttp.ClientError):
            await predict(url.replace("https", "http"), None)
        certificate.write_text("broken")
        process.send_signal(signal.SIGHUP)
        while b"expected PEM files" not in await process.stderr.readline():
            pass
        assert (await served(url, authority))[0] == first
        pem()
        process.send_signal(signal.SIGHUP)
        while (await served(url, authority))[0] == first:  # noqa: ASYNC110  no event of ours
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == 0


async def test_who_has_no_certificate_is_not_let_in(model, before, authority, pem):
    """Where an authority of clients is named, and neither is one whose certificate is another's."""
    own, other = trustme.CA(), trustme.CA()
    certificate, key = pem()
    authorities = certificate.with_name("clients.pem")
    authorities.write_bytes(own.cert_pem.bytes())
    options = [f"--upstream={model.url}", f"--tls-cert={certificate}", f"--tls-key={key}"]
    async with running(*options, f"--tls-client-ca={authorities}") as (_, url):
        assert await predict(url, trusting(authority, *pem("mine", own))) == [42]
        for stranger in (trusting(authority), trusting(authority, *pem("theirs", other))):
            with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
                await predict(url, stranger)
        assert await predict(url, trusting(authority, *pem("mine", own))) == [42]


def test_old_versions_are_not_spoken(pem):
    """TLS 1.2 at least."""
    assert ClientTls(*pem()).context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_what_is_wrong_with_files_is_told(pem, authority, tmp_path):
    """Which file, and what was expected; a key is never asked for on the terminal."""
    certificate, key = pem()
    _, another = pem("another")
    nowhere, text = tmp_path / "nowhere.pem", tmp_path / "text.pem"
    text.write_text("no certificate")
    locked = tmp_path / "locked.key"
    locked.write_text(_locked(key))
    for files, told in [
        ((nowhere, key), f"{nowhere}: No such file or directory"),
        ((certificate, nowhere), f"{nowhere}: No such file or directory"),
        ((certificate, another), f"{another}: expected the key of the certificate {certificate}"),
        ((text, key), f"{text} and {key}: expected PEM files of a certificate and its key"),
        ((certificate, key, text), f"{text}: expected a PEM file of certificates"),
        ((certificate, locked), "expected a key without a password"),
    ]:
        with pytest.raises(ConfigError) as caught:
            ClientTls(*files)
        assert told in str(caught.value)
    both = tmp_path / "both.pem"
    both.write_text(certificate.read_text() + locked.read_text())
    with pytest.raises(SettingError, match=r"upstream_cert: .*both.pem: the key has a password"):
        tls_context(None, both)


def _locked(key):
    """The same key behind a password."""
    from cryptography.hazmat.primitives import serialization

    known = serialization.load_pem_private_key(key.read_bytes(), None)
    return known.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    ).decode()


@pytest.mark.parametrize("command", ["sidecar", "serve"])
def test_options_of_tls_that_do_not_go_together(command, tmp_path):
    """Both commands say so in a sentence."""
    what = {
        "sidecar": ["--upstream=http://127.0.0.1:1", "--protocol=tensorflow"],
        "serve": ["tests.marshal.apps:corked"],
    }[command]
    result = CliRunner().invoke(main, [command, *what, "--tls-key", str(tmp_path / "key.pem")])
    assert (result.exit_code, "expected --tls-cert with" in result.output) == (2, True)
    result = CliRunner().invoke(main, [command, *what, "--tls-cert", str(tmp_path / "nowhere")])
    assert (result.exit_code, "No such file or directory" in result.output) == (2, True)
