"""Which library knows a declared type; none is imported that its author did not import."""

import sys
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from adaptive_batching.payloads.array_fields import ArrayFields
    from adaptive_batching.payloads.arrays import ArrayType


def array_type(kind: Any) -> "ArrayType | ArrayFields | None":
    """What a type says of NumPy's arrays; None if it is of something else.

    Raises:
        TypeError: It is of arrays that hold no numbers.
    """
    if "numpy" not in sys.modules:
        return None
    from adaptive_batching.payloads.arrays import ArrayType  # noqa: PLC0415  a third of a start

    return kind if hasattr(kind, "is_one_array") else ArrayType.of(kind)


def stacked_item(hint: Any) -> "ArrayType | ArrayFields | None":
    """The type of one item, if a parameter is annotated so that it takes stacked arrays.

    Raises:
        TypeError: The annotation does not say enough of one item, or can be read in two ways.
    """
    if "numpy" not in sys.modules:
        return None
    from adaptive_batching.payloads.array_stacking import Stacking  # noqa: PLC0415  it has NumPy

    stacking = Stacking.of(hint)
    return None if stacking is None else stacking.item


def stacked_row(hint: Any) -> "ArrayType | ArrayFields | None":
    """The type of one row, if a result is annotated as arrays whose rows are the items' own."""
    if "numpy" not in sys.modules:
        return None
    from adaptive_batching.payloads.array_stacking import row_type  # noqa: PLC0415  it has NumPy

    return row_type(hint)


def is_pydantic(kind: Any) -> bool:
    """Whether a type is pydantic's, or a list, a union and so on of such."""
    return hasattr(kind, "__pydantic_validator__") or any(map(is_pydantic, get_args(kind)))
