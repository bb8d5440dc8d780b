"""What external workers say: read strictly, whatever it is."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.errors import RemoteError
from adaptive_batching.wire import worker_messages as messages
from adaptive_batching.wire.frames import MAX_FRAME
from adaptive_batching.wire.worker_messages import (
    MAX_ITEMS,
    Batch,
    Bye,
    Failure,
    Hello,
    Idle,
    MalformedMessage,
    Refused,
    Results,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
    | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
    max_leaves=8,
)  # fmt: skip
FROM_WORKER = [
    Idle(),
    Hello(1, 64, "gpu-0"),
    Results([(1, b"\0"), (2, {"a": [1.5, None]})], [(3, "no")]),
    Failure("ValueError: no"),
    Bye(),
]


@pytest.mark.parametrize("message", FROM_WORKER, ids=lambda message: type(message).__name__)
def test_what_a_worker_says_is_understood(message):
    """Each message comes back as what it was."""
    assert messages.decode_from_worker(messages.encode(message)) == message


@given(st.lists(VALUES, max_size=5), st.integers(0, 2**40))
def test_batches_arrive_as_they_are(items, first):
    """Bytes stay bytes, and every item has a number of its own."""
    payload, unfit = messages.encode_batch(first, items)
    assert unfit == {}
    assert messages.decode_to_worker(payload) == Batch(list(enumerate(items, first)))


def test_numpy_is_welcome():
    """Arrays and scalars travel as lists and numbers, as they do in JSON."""
    payload, _ = messages.encode_batch(0, [np.float32(0.5), np.arange(3)])
    assert messages.decode_to_worker(payload) == Batch([(0, 0.5), (1, [0, 1, 2])])


def test_items_without_a_form_are_named():
    """Each is an error of its own that says what it was; the others travel."""
    endless = []
    endless.append(endless)
    payload, unfit = messages.encode_batch(7, [1, object(), 2**64, endless, "\ud800", 2])
    assert messages.decode_to_worker(payload) == Batch([(7, 1), (12, 2)])
    texts = {job: str(error) for job, error in unfit.items()}
    assert set(texts) == {8, 9, 10, 11}
    assert "no form for this object" in texts[8]
    assert "no form for this int" in texts[9]
    assert "a list that is nested too deep, or contains itself" in texts[10]


def test_results_without_a_form_are_errors_in_their_places():
    """So are exceptions; the rest of the batch is answered."""

    class Mute(Exception):
        def __str__(self):
            raise ValueError

    results = [1, KeyError("k"), object(), Mute(), ValueError("\ud800")]
    payload = messages.encode_results([*enumerate(results, 1)])
    message = messages.decode_from_worker(payload)
    assert message.results == [(1, 1)]
    errors = dict(message.errors)
    assert errors[2] == "KeyError: 'k'"
    assert "no form for this object" in errors[3]
    assert "can't be printed" in errors[4]
    assert errors[5] == r"ValueError: \ud800"


def test_what_a_call_raised_is_told_once():
    """However many jobs it was called with: thousands of copies would not fit into a frame."""
    payload = messages.encode_results([(1, "a")], [([2, 3], ValueError("x" * 1000))])
    assert len(payload) < 1200
    one, two, three = messages.answers(messages.decode_from_worker(payload), [1, 2, 3])
    assert one == "a"
    assert two is three
    assert str(two) == "ValueError: " + "x" * 1000


def test_answers_are_paired_by_id():
    """Whatever their order."""
    message = Results([(3, "c"), (1, "a")], [(2, "no b")])
    first, second, third = messages.answers(message, [1, 2, 3])
    assert (first, third) == ("a", "c")
    assert isinstance(second, RemoteError)
    assert str(second) == "no b"


@pytest.mark.parametrize(
    ("results", "errors", "complaint"),
    [
        ([(1, 0)], [], "each of 2 jobs, got 1"),
        ([(1, 0), (2, 0), (2, 0)], [], "each of 2 jobs, got 3"),
        ([(1, 0), (1, 0)], [], "answer to job 2, got none"),
        ([(1, 0)], [(1, "both")], "answer to job 2, got none"),
        ([(1, 0), (9, 0)], [], "answer to job 2, got none"),
    ],
)
def test_answers_that_nobody_asked_for(results, errors, complaint):
    """Too few, too many, twice and made up."""
    with pytest.raises(MalformedMessage, match=complaint):
        messages.answers(Results(results, errors), [1, 2])


@pytest.mark.parametrize(
    "message",
    [
        1,
        [],
        {},
        {"type": "batch", "jobs": []},
        {"type": "hello"},
        {"type": "hello", "protocol": "1"},
        {"type": "hello", "protocol": 1, "max_batch_size": 0},
        {"type": "hello", "protocol": 1, "name": "x" * 65},
        {"type": "results", "results": {"1": 1}},
        {"type": "results", "results": [[1]]},
        {"type": "results", "results": [[-1, 1]]},
        {"type": "results", "results": [["1", 1]]},
        {"type": "results", "results": [[1, 1]] * (MAX_ITEMS + 1)},
        {"type": "results", "errors": [[1, None]]},
        {"type": "failure"},
    ],
    ids=lambda message: repr(message)[:50],
)
def test_messages_that_are_none(message):
    """Wrong types, missing fields, too many items: all the same error."""
    with pytest.raises(MalformedMessage):
        messages.decode_from_worker(msgspec.msgpack.encode(message))


@given(st.binary(min_size=1) | st.sampled_from(FROM_WORKER).map(messages.encode), st.data())
def test_garbage_is_an_error_and_nothing_else(payload, data):
    """Cut, prolonged, and with bytes changed: it is a message, or malformed."""
    changed = bytearray(payload)
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(changed)))
        changed[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=5))
    for decode in (messages.decode_from_worker, messages.decode_to_worker):
        try:
            message = decode(changed)
        except MalformedMessage:
            continue
        assert isinstance(message, Idle | Hello | Results | Failure | Bye | Batch | Refused)


def test_the_most_that_a_message_holds():
    """As `docs/reference/frames.md` has it; one more is malformed."""
    assert (MAX_ITEMS, MAX_FRAME) == (65_536, 67_108_864)
    payload = messages.encode(Batch([(1, 1)] * MAX_ITEMS))
    assert len(messages.decode_to_worker(payload).jobs) == MAX_ITEMS
    reason = "x" * 65_536
    assert messages.decode_from_worker(messages.encode(Failure(reason))) == Failure(reason)
    with pytest.raises(MalformedMessage):
        messages.decode_from_worker(messages.encode(Failure(reason + "x")))


@pytest.mark.parametrize(
    "bomb",
    [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 10**5],
    ids=["array", "map", "bytes", "nesting"],
)
def test_claims_are_not_believed(bomb):
    """A few bytes that announce gigabytes cost nothing."""
    results = b"\x82\xa4type\xa7results\xa7results"
    for payload in (bomb, results + bomb, results + b"\x91\x92\x01" + bomb):
        with pytest.raises(MalformedMessage):
            messages.decode_from_worker(payload)


def test_another_version_is_refused():
    """With both numbers."""
    with pytest.raises(MalformedMessage, match="expected protocol 1, got 2"):
        messages.check_hello(Hello(2))
