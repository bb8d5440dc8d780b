"""The path of a Unix socket, as settings name it: read without a socket."""

import os

PREFIX = "unix:"
_LONGEST = 107  # bytes of sockaddr_un.sun_path, without its last zero


def check_path(path: str) -> None:
    """See to it that a socket can have this name.

    Raises:
        ValueError: It can't.
    """
    if not path or "\0" in path or len(os.fsencode(path)) > _LONGEST:
        msg = f"expected the path of a socket, of 1 to {_LONGEST} bytes, got {path!r}"
        raise ValueError(msg)
