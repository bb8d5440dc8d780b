"""Policies that are named outside of Python: on a command line or in a file."""

import sys
from pathlib import Path
from traceback import extract_tb

from adaptive_batching.core import make_policy
from adaptive_batching.errors import SettingError
from adaptive_batching.exception_text import message_of, qualname_of


def check_named_policy(name: str) -> None:
    """See to it that a policy can be made; the user's own are looked for where we were started.

    Raises:
        SettingError: It can't be; says where, if that is the user's own fault.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        make_policy(name)
    except ValueError as error:
        raise SettingError("policy", str(error).removeprefix("policy").lstrip(": ")) from error
    except (Exception, SystemExit) as error:
        # It is the user's own, and so is its fault; where that is helps more than where we were.
        place = extract_tb(error.__traceback__)[-1]
        said = " ".join(message_of(error).split())
        fault = f"{name!r} can't be made: {qualname_of(type(error))}: {said}"
        if not isinstance(error, SyntaxError):  # whose message has the place
            fault += f" ({place.filename}, line {place.lineno})"
        raise SettingError("policy", fault) from error
