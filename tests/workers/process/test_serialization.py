"""Python values in one frame."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.errors import BatchFunctionError, HandlerError, RemoteError
from adaptive_batching.workers.handler.results import CallRaised
from adaptive_batching.workers.process.serialization import (
    pack,
    pack_error,
    pack_items,
    pack_results,
    portable,
    unpack,
    unpack_answer,
    unpack_items,
)
from tests.odd_exceptions import of_an_odd_kind
from tests.workers.handlers import Cannot


class TakesNoNote(Exception):
    def add_note(self, note):
        raise RuntimeError(note)


class HasOddNotes(Exception):
    def __init__(self, *args):
        super().__init__(*args)
        self.__notes__ = "no list"


class TravelsOnce(Exception):
    """Can be pickled only once."""

    travelled = False

    def __reduce__(self):
        if self.travelled:
            raise TypeError("again?")
        self.travelled = True
        return TravelsOnce, self.args


class ExitsWhenPrinted(Exception):
    def __str__(self):
        raise SystemExit

    def __reduce__(self):
        raise SystemExit


class ExitsWhenPickled:
    def __reduce__(self):
        raise SystemExit("pickled")


class ExitsWhenUnpickled:
    def __reduce__(self):
        return exit_now, ()


def exit_now():
    raise SystemExit("unpickled")


def sent(parts):
    """The payload as it arrives."""
    return bytearray(b"".join(parts))


@given(st.lists(st.integers(0, 3000)))
def test_arrays_survive(lengths):
    """Arrays of all sizes, in band or beside it, arrive as they were, aligned and writable."""
    arrays = [np.arange(length, dtype=float) for length in lengths]
    received = unpack(sent(pack(arrays)))
    for before, after in zip(arrays, received, strict=True):
        assert np.array_equal(before, after)
        assert after.flags.aligned
        assert after.flags.writeable


def test_large_arrays_are_not_copied():
    """A large array is a part of its own, and is laid over what arrived."""
    array = np.zeros(10_000)
    parts = pack([array])
    assert any(isinstance(part, memoryview) and part.nbytes == array.nbytes for part in parts)
    payload = sent(parts)
    received = unpack(payload)[0]
    assert np.shares_memory(received, np.frombuffer(payload, dtype="u1"))


def test_results_that_can_not_be_pickled_are_named():
    """A lock among the results is an error in its place that names its type; the rest travels."""
    fine, named = unpack_answer(sent(pack_results([1, threading.Lock()])))
    assert fine == 1
    assert isinstance(named, BatchFunctionError)
    assert "type _thread.lock can't be sent" in str(named)


def test_answers_that_can_not_be_unpickled():
    """Garbage becomes an error for one batch."""
    with pytest.raises(RemoteError, match="can't be unpickled here"):
        unpack_answer(bytearray(8) + b"garbage")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Cannot(1, 2), r"tests\.workers\.handlers\.Cannot: 1 and 2"),
        (ValueError(threading.Lock()), r"^ValueError: <unlocked"),
    ],
)
def test_errors_that_can_not_travel_have_a_stand_in(error, message):
    """What can't be pickled, or not unpickled, is told by its type and message."""
    with pytest.raises(RemoteError, match=message):
        raise portable(error)


def test_errors_that_can_not_be_printed():
    """Not even a broken __str__ does harm."""

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert "Mute: (its message can't be printed)" in str(portable(Mute()))


def test_errors_keep_their_traceback_as_a_note():
    """The caller sees where in the worker it happened."""
    try:
        {}["missing"]
    except KeyError as error:
        payload = sent(pack_error(error))
    with pytest.raises(KeyError) as caught:
        unpack_answer(payload)
    assert "test_serialization.py" in caught.value.__notes__[0]


class HidesItsClass(Exception):
    @property
    def __class__(self):
        raise RuntimeError


def test_an_error_that_hides_its_class():
    """The worker lives to tell its name."""
    with pytest.raises(BatchFunctionError, match="HidesItsClass"):
        unpack_answer(sent(pack_error(HidesItsClass("odd"))))


@pytest.mark.parametrize("kind", [TakesNoNote, HasOddNotes, TravelsOnce, ExitsWhenPrinted])
def test_errors_that_are_as_odd_as_can_be(kind):
    """The worker lives to tell their name, and what became of other items is told as well."""
    with pytest.raises(RemoteError, match=kind.__name__):
        unpack_answer(sent(pack_error(kind("odd"))))
    raised = CallRaised(kind("odd"))
    results = pack_results([raised, raised, 1, ValueError("alone")])
    one, other, fine, alone = unpack_answer(sent(results))
    assert (type(one), type(one.error), fine) == (CallRaised, RemoteError, 1)
    assert one is other
    assert kind.__name__ in str(one)
    assert str(alone) == "alone"


def test_an_error_that_can_be_pickled_only_a_few_times_is_named():
    """However many that are."""
    for times in range(6):
        remaining = iter(range(times))

        class Travels(Exception):
            def __reduce__(self, remaining=remaining):
                next(remaining)
                return ValueError, ("arrived",)

        with pytest.raises((RemoteError, ValueError), match=r"Travels|arrived"):
            unpack_answer(sent(pack_error(Travels("odd"))))


def test_an_error_of_which_nothing_can_be_asked_is_named():
    """The worker lives to tell its name, and in a result's place it harms no other."""
    with pytest.raises(RemoteError, match="OfAnOddKind: odd"):
        unpack_answer(sent(pack_error(of_an_odd_kind("odd"))))
    fine, odd = unpack_answer(sent(pack_results([1, of_an_odd_kind("odd")])))
    assert fine == 1
    assert str(odd).endswith("OfAnOddKind: odd")


def test_who_exits_when_pickled_fails_alone():
    """Neither the program nor the handler wanted to end, and the others have nothing to do with it.

    That goes for items on their way to a worker, and for results on their way back.
    """
    parts, refused = pack_items([1, ExitsWhenPickled()])
    assert unpack(sent(parts)) == [1]
    assert isinstance(refused[1], HandlerError)
    fine, named = unpack_answer(sent(pack_results([1, ExitsWhenPickled()])))
    assert fine == 1
    assert "type tests.workers.process.test_serialization.ExitsWhenPickled can't be sent" in str(
        named
    )


def test_who_can_not_be_unpickled_in_the_worker():
    """It is said to be the item's fault; the handler has not even been called."""
    with pytest.raises(HandlerError, match="unpickled in the worker process: SystemExit: unpick"):
        unpack_items(sent(pack([1, ExitsWhenUnpickled()])))
