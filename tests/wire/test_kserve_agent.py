"""The fields that KServe's agent adds."""

import pytest

from adaptive_batching.wire.kserve_agent import with_batch_fields


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b'{"predictions": [1e400]}', b'{"message":"","batchId":"7","predictions": [1e400]}'),
        (b" { }", b'{"message":"","batchId":"7"}'),
        (b"[1]", b"[1]"),
        (b"", b""),
    ],
)
def test_fields_come_first_and_nothing_else_is_touched(answer, told):
    assert with_batch_fields(answer, "7") == told
