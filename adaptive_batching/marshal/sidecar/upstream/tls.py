"""Decides which model servers are believed, and shows them our own certificate."""

import ssl
from pathlib import Path

from adaptive_batching.errors import SettingError


def tls_context(authorities: Path | None, certificate: Path | None) -> ssl.SSLContext | None:
    """What servers that are reached by TLS are met with; None for what the system believes.

    Args:
        authorities: PEM file of those that may have signed a server's certificate, instead of the
            system's; the server's own if it signed it itself.
        certificate: PEM file of our certificate and its key, for servers that ask for one.

    Raises:
        SettingError: A file can't be read, or holds something else.
    """
    if authorities is None and certificate is None:
        return None
    try:
        context = ssl.create_default_context(cafile=authorities)
    except (OSError, ValueError) as error:
        msg = f"expected a PEM file of certificates: {authorities}: {error}"
        raise SettingError("upstream_ca", msg) from error
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, password=_no_password)
        except (OSError, ValueError) as error:
            msg = f"expected a PEM file of a certificate and its key: {certificate}: {error}"
            raise SettingError("upstream_cert", msg) from error
    return context


def _no_password() -> str:
    """Refuse a password: OpenSSL would ask for one on the terminal, and all requests would wait."""
    raise ValueError("the key has a password, which a sidecar can't ask for")
