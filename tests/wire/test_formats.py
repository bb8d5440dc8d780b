"""Protocols by the names that users write."""

import pytest

from adaptive_batching.wire.formats import PROTOCOLS, make_format


@pytest.mark.parametrize("name", PROTOCOLS)
def test_each_can_be_made(name):
    """Without anything else said, each wants what is posted somewhere, and nothing else."""
    assert not make_format(name).wants("GET", "/v2/health/live")


def test_a_name_that_nobody_knows():
    """The names are listed."""
    with pytest.raises(ValueError, match=r"json, kserve-v1, .*open-inference.*, got 'grpc'"):
        make_format("grpc")


def test_pointers_without_a_use():
    """They are told, not ignored."""
    with pytest.raises(ValueError, match=r"with json.* only, got them with tensorflow"):
        make_format("tensorflow", "/inputs")
