"""Types on their way to a worker process: pickle, and what of msgspec it does not know.

Between a program and the workers that it starts, like the handler's name: never from a socket that
has a name.
"""

import copyreg
import pickle
from io import BytesIO
from typing import Any

import msgspec

from adaptive_batching.errors import HandlerNotFound

_CONSTRAINTS = (
    "gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz",
    "title", "description", "examples", "extra_json_schema", "extra",
)  # fmt: skip


def pickled_types(*parts: Any) -> bytes:
    """Pickle a callable and its arguments, types among them.

    Raises:
        HandlerNotFound: A worker process could not import one of the types.
    """
    stream = BytesIO()
    pickler = pickle.Pickler(stream, protocol=5)
    pickler.dispatch_table = copyreg.dispatch_table | {msgspec.Meta: _reduce_meta}
    try:
        pickler.dump(parts)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        msg = (
            f"a declared type can't be brought to a worker process: {error}: define it at the top"
            " level of a module"
        )
        raise HandlerNotFound(msg) from error
    return stream.getvalue()


def unpickled_types(pickled: bytes) -> Any:
    """Call what was pickled with its arguments."""
    make, *arguments = pickle.loads(pickled)  # noqa: S301 - from the program that started us
    return make(*arguments)


def _reduce_meta(meta: msgspec.Meta) -> Any:
    given = {name: getattr(meta, name) for name in _CONSTRAINTS}
    return _meta, ({name: value for name, value in given.items() if value is not None},)


def _meta(constraints: dict[str, Any]) -> msgspec.Meta:
    return msgspec.Meta(**constraints)
