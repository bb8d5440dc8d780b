"""What clients that come by TLS are met with."""

import logging
import ssl
from pathlib import Path

from adaptive_batching.errors import ConfigError

_log = logging.getLogger("adaptive_batching")


class ClientTls:
    """A certificate, which may be renewed, and whose clients are let in.

    Args:
        certificate: PEM file of our certificate and those that lead to its authority.
        key: PEM file of its key; None if that is in the same file.
        client_authorities: PEM file of those that have to have signed a client's certificate; None
            lets anybody in.

    Attributes:
        context: For connections that come from now on; TLS 1.2 or later.

    Raises:
        ConfigError: A file can't be read, or they don't go together.
    """

    def __init__(
        self, certificate: Path, key: Path | None = None, client_authorities: Path | None = None
    ) -> None:
        self._certificate = certificate
        self._key = certificate if key is None else key
        self._client_authorities = client_authorities
        self.context = self._made()

    def __repr__(self) -> str:
        return f"<ClientTls {self._certificate}>"

    def renew(self) -> None:
        """Read the files again; connections that there are keep what they have.

        An authority that is gone is believed until the process ends: those of a context can only
        become more.

        Raises:
            ConfigError: They can't be read, or don't go together: all is as before.
        """
        self._made()  # if anything is wrong, it is told before anything has changed
        self._load(self.context)
        _log.info("the certificate of %s is served from now on", self._certificate)

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        for file in (self._certificate, self._key, self._client_authorities):
            if file is not None:
                _expect_readable(file)
        try:
            context.load_cert_chain(self._certificate, self._key, _no_password)
        except ssl.SSLError as error:
            raise self._unusable(error) from error
        if self._client_authorities is None:
            return
        try:
            context.load_verify_locations(self._client_authorities)
        except ssl.SSLError as error:
            msg = f"{self._client_authorities}: expected a PEM file of certificates"
            raise ConfigError(f"{msg}: {error.reason or error}") from error
        context.verify_mode = ssl.CERT_REQUIRED

    def _unusable(self, error: ssl.SSLError) -> ConfigError:
        if error.reason == "KEY_VALUES_MISMATCH":
            return ConfigError(
                f"{self._key}: expected the key of the certificate {self._certificate}"
            )
        both = f"{self._certificate} and {self._key}"
        return ConfigError(f"{both}: expected PEM files of a certificate and its key: {error}")


def _expect_readable(file: Path) -> None:
    try:
        file.open("rb").close()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error


def _no_password() -> str:
    """OpenSSL would ask for one on the terminal otherwise."""
    raise ConfigError("expected a key without a password, which a service can't ask for")
