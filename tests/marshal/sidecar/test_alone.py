"""Why requests had a batch to themselves."""

import logging

import pytest

from adaptive_batching.core import BoundedKey
from adaptive_batching.core.job import Outcome, Reason
from adaptive_batching.core.records import BatchRecord
from adaptive_batching.marshal.sidecar.alone import Alone
from adaptive_batching.marshal.sidecar.batch_key import HeaderRules


@pytest.fixture
def alone():
    return Alone("models", HeaderRules())


def left(alone, arrived, released, *, target="/m", requests=1, waiting=0, most=0, **more):
    """A batch leaves; its key is None if its kind was set apart."""
    reason, headers = more.pop("reason", None), more
    told = tuple(sorted((name.lower(), value) for name, value in headers.items()))
    key = object() if target is None else ("POST", target, told, "share")
    if most:
        key = BoundedKey(key, most)
    record = BatchRecord(
        *(released, released + 1, requests, requests, key, reason or Reason.IDLE),
        *(Outcome.DONE, 0.0, arrived, waiting),
    )
    alone.batch_ended(None, record)


def test_nothing_is_counted_of_those_who_share_a_batch(alone):
    left(alone, 0, 1, requests=2)
    assert not alone.counts


def test_a_request_that_came_after_the_others_had_left_had_no_company(alone):
    left(alone, 0, 1, Cookie="a")
    left(alone, 2, 3, Cookie="b")
    assert alone.counts == {("no_company", ""): 2}


def test_a_header_is_why_if_it_is_all_that_differs(alone):
    """One that another has and this has not differs as well."""
    left(alone, 0, 3, requests=4, Cookie="a")
    left(alone, 1, 4, Cookie="b")
    left(alone, 2, 5)
    left(alone, 2, 5, target="/n", Cookie="a")
    assert alone.counts == {("header", "Cookie"): 2, ("request", ""): 1}


def test_a_header_is_why_where_a_model_has_smaller_batches_as_well(alone):
    """The key of such a batch holds the bound, too."""
    left(alone, 0, 3, requests=4, most=4, Cookie="a")
    left(alone, 1, 4, most=4, Cookie="b")
    left(alone, 2, 5, Cookie="c")
    assert alone.counts == {("header", "Cookie"): 2}


def test_the_first_to_leave_is_compared_with_the_next(alone):
    """Those that it waited with have not left yet."""
    left(alone, 0, 2, waiting=1, Cookie="a")
    assert not alone.counts
    left(alone, 1, 3, Cookie="b")
    assert alone.counts == {("header", "Cookie"): 2}


def test_what_was_no_longer_for_the_batch_or_runs_again_is_no_headers_fault(alone):
    """A full batch has left a request behind, or a failed one was taken apart."""
    left(alone, 0, 3, requests=4, Cookie="a")
    left(alone, 1, 4, Cookie="a")
    left(alone, 1, 4, reason=Reason.BISECT, Cookie="b")
    left(alone, 1, 4, target=None)
    assert alone.counts == {("limit", ""): 1, ("again", ""): 1, ("set_apart", ""): 1}


def test_the_log_names_the_header_once_that_keeps_most_requests_alone(alone, caplog):
    """Languages differ as well, but some of those who waited have the same; the option is told."""
    for number in range(1024):
        own = {"Accept-Language": f"l{number % 2}", "X-My-Key": f"s{number}"}
        left(alone, number, number + 4, **own)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "'x-my-key'" in record.getMessage()
    assert "--shared-header" in record.getMessage()
    assert alone.counts["header", "*-Key"] > 1000


def test_the_log_is_silent_while_most_requests_share_batches(alone, caplog):
    """A few clients with credentials of their own are as it should be."""
    for number in range(0, 1024, 4):
        left(alone, number, number + 8, requests=3)
        left(alone, number, number + 8, Authorization=f"{number}")
    assert not caplog.records
    assert sum(alone.counts.values()) == 256


def test_the_log_names_the_option_by_which_a_header_keeps_requests_alone(caplog):
    """It was asked for."""
    alone = Alone("models", HeaderRules(["X-Forwarded-For"]))
    for number in range(512):
        left(alone, number, number + 4, **{"X-Forwarded-For": f"{number}"})
    [record] = caplog.records
    assert "--partition-by" in record.getMessage()
