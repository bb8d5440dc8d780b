"""Mistakes in the description of a service, found where they are made."""

import re
from math import isfinite

from adaptive_batching.errors import SettingError
from adaptive_batching.units import Duration, is_number, is_whole_number, seconds_of
from adaptive_batching.workers.handler.handler import call_of, is_async, name_of, yields

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2


def check_count(name: str, count: object) -> None:
    """See to it that something is an integer of 1 or more.

    Raises:
        TypeError: It is no integer.
        ValueError: It is less.
    """
    if not is_whole_number(count):
        raise TypeError(f"{name}: expected an integer, got {count!r}")
    if count < 1:
        raise ValueError(f"{name}: expected at least 1, got {count}")


def check_fits(max_body: int, max_queue_bytes: int) -> None:
    """See to it that the largest body of an endpoint finds room in memory.

    Raises:
        SettingError: It never would.
    """
    if max_body > max_queue_bytes:
        fault = f"expected at most max_queue_bytes={max_queue_bytes} of the service, got {max_body}"
        raise SettingError("max_body", fault)


def positive_seconds(name: str, duration: Duration) -> float:
    """Return the seconds of a time that can pass.

    Raises:
        TypeError: It is no number.
        ValueError: It is a text of something else.
        SettingError: It is not positive, or endless.
    """
    seconds = seconds_of(name, duration)
    if not is_number(seconds):
        raise TypeError(f"{name}: expected seconds, or a text such as 10s, got {seconds!r}")
    if not (seconds > 0 and isfinite(seconds)):
        raise SettingError(name, f"expected a positive number of seconds, got {seconds}")
    return seconds


def check_path(path: object) -> None:
    """See to it that a request can have this path.

    Raises:
        TypeError: It is no text.
        ValueError: No request's path is like that.
    """
    expected = "path: expected something like /predict"
    if not isinstance(path, str):
        raise TypeError(f"{expected}, got {path!r}")
    if set(path) & set("{}"):
        raise ValueError(f"{expected}, got {path!r}: paths have no parameters, items have fields")
    if not path.startswith("/") or set(path) & set("?#% ") or not path.isprintable():
        raise ValueError(f"{expected}, without spaces and what can't be printed, got {path!r}")


def check_header_name(name: str, header: str) -> None:
    """See to it that a header can be called that.

    Raises:
        SettingError: None can.
    """
    if not _TOKEN.fullmatch(header):
        raise SettingError(name, f"expected the name of a header, such as X-Tenant, got {header!r}")


def check_key(key: object) -> None:
    """See to it that items can have such keys.

    Raises:
        TypeError: It is neither a function nor a name, or has to be awaited, or yields.
        SettingError: No header can be called that.
    """
    if isinstance(key, str):
        check_header_name("key", key)
    elif key is not None and not callable(key):
        raise TypeError(f"key: expected a function or the name of a header, got {key!r}")
    elif is_async(key) or yields(call_of(key)):  # each call returns another object, which is no key
        how = "has to be awaited" if is_async(key) else "yields"
        expected = "expected a function that returns the key"
        raise TypeError(f"key: {expected}, got {name_of(key)}, which {how}")


def check_cost(cost: object) -> None:
    """See to it that the cost of a body is either its length, or up to a function.

    Raises:
        ValueError: It is another text.
    """
    if isinstance(cost, str) and cost != "bytes":
        raise ValueError(f"cost: expected a function of one item, or 'bytes', got {cost!r}")


def check_shared(policy: object, cpus: object, key: object) -> None:
    """See to it that an endpoint does not decide alone about workers that it shares.

    Raises:
        ValueError: It names a policy or cores, or has keys: its path is the key of its batches.
    """
    if key is not None:
        raise ValueError(f"key: expected none with SharedWorkers, got {key!r}")
    for name, default, given in (("policy", "cork", policy), ("cpus", None, cpus)):
        if given != default:
            msg = f"{name}: expected it in SharedWorkers({name}=...), which all its endpoints have"
            raise ValueError(f"{msg} in common, got {given!r}")
