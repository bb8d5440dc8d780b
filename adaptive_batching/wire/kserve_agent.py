"""What KServe's agent adds to the answers of its batcher: `message` and `batchId`.

Source: kserve/pkg/batcher/handler.go, `Response`; its clients may look for them.
"""

import re

_OBJECT = re.compile(rb"\s*\{\s*")


def with_batch_fields(answer: bytes, batch: str) -> bytes:
    """Put the fields before those of an answer; one that is no object stays as it is.

    Args:
        answer: JSON.
        batch: The batch's id, of letters, digits and dashes.
    """
    opening = _OBJECT.match(answer)
    if opening is None:
        return answer
    rest = answer[opening.end() :]
    comma = b"" if rest.startswith(b"}") else b","
    return b'{"message":"","batchId":"%b"%b%b' % (batch.encode(), comma, rest)
