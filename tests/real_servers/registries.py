"""Where this machine gets packages from: what pip was told of it, said to uv.

Uv does not read pip's configuration, which is where most machines name their mirror.
"""

import os
import shutil
import subprocess
from ast import literal_eval
from pathlib import Path

_SAID_TO_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}
_CONFIGURATION = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
_UV_FILES = (_CONFIGURATION / "uv" / "uv.toml", Path("/etc/uv/uv.toml"))
_COMMAS = {"UV_FIND_LINKS"}  # spaces divide the others


def settings():
    """Variables for uv: those that are set, and what only pip was told."""
    # of the project's own environment nothing is meant
    clean = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    # one that does not answer must not hold up the tests: uv's own patience is four tries
    patience = {"UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "1"}
    return {**patience, **({} if _uv_was_told() else _of_pip()), **clean}


def _uv_was_told():
    named = {"UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_CONFIG_FILE"} & os.environ.keys()
    return bool(named) or any(file.exists() for file in _UV_FILES)


def _of_pip():
    pip = shutil.which("pip") or shutil.which("pip3")
    if pip is None:
        return {}
    told = subprocess.run([pip, "config", "list"], capture_output=True, text=True, check=False)
    found = {}
    # the last one counts: the environment, which pip lists first, is stronger than files
    for line in sorted(told.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        place, _, value = line.partition("=")
        section, _, name = place.rpartition(".")
        variable = _SAID_TO_UV.get(name)
        if variable and section in {":env:", "global", "install"}:
            words = literal_eval(value).split()
            found[variable] = ("," if variable in _COMMAS else " ").join(words)
    # pip takes the best of all indexes, uv otherwise whatever the first one has
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **found} if found else {}
