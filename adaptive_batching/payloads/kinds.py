"""Which library knows a declared type; none is imported that its author did not import."""

import sys
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from adaptive_batching.payloads.arrays import ArrayType


def array_type(kind: Any) -> "ArrayType | None":
    """What a type says of NumPy's arrays; None if it is of something else.

    Raises:
        TypeError: It is of arrays that hold no numbers.
    """
    if "numpy" not in sys.modules:
        return None
    from adaptive_batching.payloads.arrays import ArrayType  # noqa: PLC0415  a third of a start

    return ArrayType.of(kind)


def is_pydantic(kind: Any) -> bool:
    """Whether a type is pydantic's, or a list, a union and so on of such."""
    return hasattr(kind, "__pydantic_validator__") or any(map(is_pydantic, get_args(kind)))
