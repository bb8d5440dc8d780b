"""What clients may send to cost time and memory: how much Python runs, and how much is allocated.

The CPU that it takes is measured by `bench wire`, for it is the machine's.
"""

import json
import tracemalloc
from functools import partial
from itertools import groupby

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.bench.harness.hostile import hostile
from adaptive_batching.errors import JobTooLarge
from adaptive_batching.wire.exchange import Message, Request
from adaptive_batching.wire.formats import make_format
from adaptive_batching.wire.listed import Rows
from adaptive_batching.wire.msgpack import PackedRows
from adaptive_batching.wire.splice import FEW_ITEMS, LARGE, MOST_ITEMS, NotCuttable, elements
from tests.wire.steps import steps
from tests.wire.texts import names, values

PREDICT, INFER = "/v1/models/m:predict", "/v2/models/m/infer"
BODIES = {name: [*each] for name, each in groupby(hostile(), lambda each: each.name.split(":")[0])}
SIZE = 3 * 2**19


def take(each, request):
    """Take it, name its batch, and cut it into pieces; items of a megabyte are its usual cost."""
    try:
        share = each.form.take(request)
    except JobTooLarge:
        return
    if share is not None:
        hash(share.key)
        each.form.cut(share, 64)


@pytest.mark.parametrize("protocol", BODIES)
def test_python_does_little_for_any_body(protocol):
    """Lines that are run are bounded by the items that are cut, not by the bytes that came."""
    for each in BODIES[protocol]:
        request = each.request(SIZE)
        assert steps(partial(take, each, request)) < MOST_ITEMS, each.name


@pytest.mark.parametrize("protocol", BODIES)
def test_a_body_takes_a_few_times_its_memory(protocol):
    """Those of its items and texts, in copies, and of characters of four bytes."""
    for each in BODIES[protocol]:
        request = each.request(SIZE)
        take(each, each.request(2**10))  # what is made once is made
        tracemalloc.start()
        try:
            take(each, request)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8 * SIZE, each.name


FLOATS = [n / 7 for n in range(2_000)]
ROWS = [FLOATS] * 200
USUAL = {
    "tensorflow": (PREDICT, {"instances": ROWS}, 200),
    "tensorflow, rows of names": (PREDICT, {"instances": [{"a": 1.5, "b": "x:y"}] * 8_000}, 8_000),
    "tensorflow-columns": (PREDICT, {"inputs": {"a": ROWS, "b": ROWS}}, 200),
    "torchserve": ("/predictions/m", {"instances": ROWS}, 200),
    "json": ("/", ROWS, 200),
    "openai-embeddings": ("/v1/embeddings", {"input": ['12:30 \u4e2d: "a"' * 300] * 1000}, 1000),
    "tei": ("/embed", {"inputs": [[*range(500, 1500)]] * 1000}, 1000),
}
TENSORS = {
    "flat": (b"[200,2000]", json.dumps(FLOATS * 200)),
    "nested": (b"[200,2000]", json.dumps(ROWS)),
    "nested, with NaN": (b"[20,2000]", json.dumps([FLOATS] * 19 + [[float("nan")] * 2000])),
    "pixels": (b"[8,3,224,224]", json.dumps([[[[255, 0] * 112] * 224] * 3] * 8)),
    "strings": (b"[64,1000]", json.dumps([['a \u4e2d, "b"\\'] * 1000] * 64)),
}


@pytest.mark.parametrize("name", USUAL)
def test_what_is_large_and_usual_is_batched(name):
    """Megabytes of numbers and texts, and as many items as there are in them."""
    path, value, size = USUAL[name]
    share = make_format(name.split(",")[0]).take(
        Request("POST", path, Message(json.dumps(value).encode()))
    )
    assert share is not None
    assert share.size == size


@pytest.mark.parametrize("name", TENSORS)
def test_large_tensors_in_json_are_batched(name):
    """Flat or nested, of numbers or strings; and cut into the rows that came."""
    shape, data = TENSORS[name]
    tensor = b'{"name":"a","shape":%b,"datatype":"X","data":%b}' % (shape, data.encode())
    form = make_format("open-inference")
    share = form.take(Request("POST", INFER, Message(b'{"inputs":[%b]}' % tensor)))
    rows = [piece.tensors[0].data for piece in form.cut(share, 1)]
    assert share.size == len(rows)
    whole = json.loads(b"[" + b",".join(row[1:-1] for row in rows) + b"]")
    assert json.dumps(whole) == json.dumps(json.loads(data))  # NaN is not equal to itself


@pytest.mark.parametrize(
    "items", [ROWS * 2, [b"x" * 2**20] * 6, ["x" * 2**20] * 6], ids=["floats", "bytes", "strings"]
)
@pytest.mark.parametrize("pointer", ["", "/a/b"])
def test_large_msgpack_is_batched(items, pointer):
    """What a parser steps over at once may have as many bytes as there are."""
    value = items if not pointer else {"a": {"b": items, "c": 1}}
    body = msgspec.msgpack.encode(value)
    share = make_format("msgpack", pointer).take(Request("POST", "/", Message(body)))
    assert [msgspec.msgpack.decode(item) for item in share.rows.items] == items
    assert len(body) > 3 * 2**20


@given(st.dictionaries(names, values(), max_size=3), st.lists(values(), min_size=1))
def test_a_list_in_a_large_body_is_the_list_in_a_small_one(beside, items):
    """However it is found, and whatever stands beside it."""
    others = "".join(
        f"{json.dumps(name)}:{value}," for name, value in beside.items() if name != "a"
    )
    text = "{" + others + '"\\u0061":{"b" : [' + ",".join(items) + '],"c":NaN}}'
    small, large = (text.encode(), b" " * LARGE + text.encode())
    one, other = (Rows.read(body, ("a", "b")) for body in (small, large))
    assert (one.before, [*map(bytes, one.items)], one.after) == (
        other.before, [*map(bytes, other.items)], other.after
    )  # fmt: skip


@given(st.lists(st.binary() | st.integers(0, 2**64 - 1), min_size=1))
def test_a_list_in_a_large_map_is_the_list_in_a_small_one(items):
    """The same in MessagePack."""
    small = msgspec.msgpack.encode({"a": items, "b": 1})
    large = msgspec.msgpack.encode({"x": bytes(LARGE), "a": items, "b": 1})
    one, other = (PackedRows.read(body, ("a",)).items for body in (small, large))
    assert [*map(bytes, one)] == [*map(bytes, other)]


def test_a_request_of_too_many_items_is_refused():
    """Not passed on: the server would have to take all of them at once."""
    few = json.dumps([[1] * 9] * FEW_ITEMS).encode()
    assert len(elements(few, bounded=True)) == FEW_ITEMS
    for many in ([[1] * 9] * (FEW_ITEMS + 1), [1] * (MOST_ITEMS + 1)):
        with pytest.raises(JobTooLarge, match=f"expected at most {FEW_ITEMS} items"):
            elements(json.dumps(many).encode(), bounded=True)
    with pytest.raises(JobTooLarge, match=f"expected at most {MOST_ITEMS} items"):
        make_format("msgpack").take(
            Request("POST", "/", Message(msgspec.msgpack.encode([1] * (MOST_ITEMS + 1))))
        )


def test_two_lists_of_one_name():
    """The last one counts, as in a small body."""
    pad = b" " * LARGE
    assert [*map(bytes, Rows.read(pad + b'{"a":[1],"a":[2]}', ("a",)).items)] == [b"2"]
    with pytest.raises(NotCuttable):
        Rows.read(pad + b'{"a":[1],"a":2}', ("a",))
