"""Which library knows a declared type; none is imported that its author did not import."""

import sys
from typing import TYPE_CHECKING, Any, get_args, get_origin

if TYPE_CHECKING:
    from adaptive_batching.payloads.arrays.array_type import ArrayType
    from adaptive_batching.payloads.arrays.fields import ArrayFields
    from adaptive_batching.payloads.arrays.stacking import Stacking


def array_type(kind: Any) -> "ArrayType | ArrayFields | None":
    """What a type says of NumPy's arrays; None if it is of something else.

    Raises:
        TypeError: It is of arrays that hold no numbers.
    """
    if "numpy" not in sys.modules:
        return None
    from adaptive_batching.payloads.arrays.array_type import (  # noqa: PLC0415  a third of a start
        ArrayType,
    )

    return kind if hasattr(kind, "is_one_array") else ArrayType.of(kind)


def stacking_of(hint: Any) -> "Stacking | None":
    """What stacks the items of a batch, if a parameter is annotated so; None if it takes a list.

    Raises:
        TypeError: The annotation does not say enough of one item, or can be read in two ways.
    """
    if _says_nothing_of_arrays(hint):
        return None
    from adaptive_batching.payloads.arrays.stacking import Stacking  # noqa: PLC0415  it has NumPy

    return Stacking.of(hint)


def stacked_row(hint: Any) -> "ArrayType | ArrayFields | None":
    """The type of one row, if a result is annotated as arrays whose rows are the items' own."""
    if _says_nothing_of_arrays(hint):
        return None
    from adaptive_batching.payloads.arrays.columns import row_type  # noqa: PLC0415  it has NumPy

    return row_type(hint)


def _says_nothing_of_arrays(hint: Any) -> bool:
    """Whether that is seen at a glance, as of most: what reads the others takes long to import."""
    return "numpy" not in sys.modules or hint is Any or list in {hint, get_origin(hint)}


def is_pydantic(kind: Any) -> bool:
    """Whether a type is pydantic's, or a list, a union and so on of such."""
    return hasattr(kind, "__pydantic_validator__") or any(map(is_pydantic, get_args(kind)))
