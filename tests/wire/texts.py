"""JSON as servers and clients write it: any spacing, any numbers, any names."""

import json
from functools import cache

from hypothesis import strategies as st

numbers = st.one_of(
    st.integers().map(str),
    st.sampled_from(["1e400", "-0.0", "0.1000", "1E+2", "12345678901234567890123", "-1e-9"]),
)
lenient_numbers = st.one_of(numbers, st.sampled_from(["NaN", "Infinity", "-Infinity"]))
spaces = st.sampled_from(["", " ", "\n", "\t  "])
names = st.text(st.characters(codec="utf-8"), max_size=6)


@cache  # hypothesis remembers what it found out about a strategy, and tests ask for it in loops
def values(numbers=lenient_numbers):
    """The text of any JSON value."""
    leaves = st.one_of(numbers, st.sampled_from(["true", "false", "null"]), names.map(json.dumps))
    return st.recursive(
        leaves, lambda inner: st.one_of(arrays(inner), objects(inner)), max_leaves=8
    )


@st.composite
def arrays(draw, inner):
    """The text of an array."""
    return "[" + _spaced(draw, draw(st.lists(inner, max_size=4))) + "]"


@st.composite
def objects(draw, inner, leave_out=frozenset()):
    """The text of an object whose names differ."""
    own = names.filter(lambda name: name not in leave_out) if leave_out else names
    parts = draw(st.dictionaries(own, inner, max_size=3))
    members = [
        json.dumps(name) + draw(spaces) + ":" + draw(spaces) + value
        for name, value in parts.items()
    ]
    return "{" + _spaced(draw, members) + "}"


def _spaced(draw, parts):
    return ",".join(draw(spaces) + part + draw(spaces) for part in parts)
