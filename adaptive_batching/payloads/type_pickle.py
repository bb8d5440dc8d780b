"""Types on their way to a worker: what of them pickle does not know by itself.

Importing this module teaches it, and with it whatever extends it, such as Ray's.
"""

import copyreg
from typing import Any

import msgspec

_CONSTRAINTS = (
    "gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz",
    "title", "description", "examples", "extra_json_schema", "extra",
)  # fmt: skip


def _reduce_meta(meta: msgspec.Meta) -> Any:
    given = {name: getattr(meta, name) for name in _CONSTRAINTS}
    return _meta, ({name: value for name, value in given.items() if value is not None},)


def _meta(constraints: dict[str, Any]) -> msgspec.Meta:
    return msgspec.Meta(**constraints)


copyreg.pickle(msgspec.Meta, _reduce_meta)
