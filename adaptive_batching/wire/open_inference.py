"""The Open Inference Protocol, which KServe calls V2: tensors whose first dimension is the batch.

`POST /v2/models/M[/versions/V]/infer`, in JSON and with the binary tensor extension, as Triton,
MLServer, KServe and OpenVINO speak it. Elements of tensors are never read as numbers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import count, repeat

import msgspec
from msgspec.structs import replace

from adaptive_batching.wire.exchange import (
    Format,
    Message,
    Request,
    Unsplittable,
    goes_as_it_came,
)
from adaptive_batching.wire.item_cost import ItemCost
from adaptive_batching.wire.splice import NotCuttable, Raw, members, text_of
from adaptive_batching.wire.tensor_messages import (
    JSON_LENGTH,
    close_message,
    merged_message,
    open_message,
    read_tensors,
    write_tensors,
)
from adaptive_batching.wire.tensor_share import TensorShare, share_of
from adaptive_batching.wire.tensors import Tensor

_PATH = re.compile(r"/v2/models/[^/]+(?:/versions/[^/]+)?/infer")
_PATHS = 256  # that are remembered


class OpenInference(Format[TensorShare]):
    """Tensors in JSON, in bytes, or some in this and some in that."""

    has_models = True
    has_texts = False

    def reads_pieces(self, headers: Mapping[str, str]) -> bool:
        """Whether tensors stand behind the JSON, which go on as they are."""
        return JSON_LENGTH in headers

    def wants(self, method: str, path: str) -> bool:
        """Whether it is the verb that is answered once."""
        return method == "POST" and _is_infer(path)

    def read(self, request: Request) -> TensorShare:
        """Understand a request; see `Format.read`."""
        return share_of(request)

    def costs(self, share: TensorShare, item_cost: ItemCost) -> Sequence[float]:
        """The bytes of each row in all tensors, whatever else a cost may be read off."""
        return share.row_bytes()

    def merge(self, shares: Sequence[TensorShare]) -> Message:
        """Tensors one after the other; a request that is alone goes as it came."""
        first = shares[0]
        if len(shares) == 1 and first.own is not None:
            return first.own
        text, tail = write_tensors(_joined([share.tensors for share in shares]))
        body = b"{" + _texts(first.beside) + b'"inputs":' + text + b"}"
        return merged_message(body, tail, first.about)

    def split(self, shares: Sequence[TensorShare], answer: Message) -> list[Message]:
        """To each share its own rows, under the id that it came with.

        Raises:
            Unsplittable: An output has not a row for each row that was sent.
        """
        if goes_as_it_came(shares):
            return [answer]
        beside, outputs = _opened(answer)
        sizes = [share.size for share in shares]
        try:
            parts = [output.cut(sizes) for output in outputs]
        except NotCuttable as error:
            raise Unsplittable(str(error)) from error
        answer_to = _Answers(beside, answer.headers)
        return list(map(answer_to, shares, count(), zip(*parts, strict=True)))

    def cut(self, share: TensorShare, limit: int) -> list[TensorShare]:
        """Shares of at most `limit` rows."""
        whole, rest = divmod(share.size, limit)
        sizes = [*repeat(limit, whole), *([rest] if rest else ())]
        parts = zip(*(tensor.cut(sizes) for tensor in share.tensors), strict=True)
        return [replace(share, tensors=own, identity=None, own=None) for own in parts]

    def repeated(self, share: TensorShare, place: int, times: int) -> TensorShare:
        """Return a share of one of its rows, so many times."""
        tensors = [tensor.repeat(place, times) for tensor in share.tensors]
        return replace(share, tensors=tensors, identity=None, own=None)

    def join(self, share: TensorShare, answers: Sequence[Message]) -> Message:
        """All rows of each output, beside what the first answer says.

        Raises:
            Unsplittable: Answers differ in more than rows, or there are not enough of them.
        """
        opened = [_opened(answer) for answer in answers]
        outputs = [tensors for _, tensors in opened]
        kinds = {tuple((each.kind, type(each.data)) for each in tensors) for tensors in outputs}
        if len(kinds) > 1:
            raise Unsplittable("expected the same outputs for all pieces of a request")
        whole = _joined(outputs)
        for output in whole:
            if output.shape[0] != share.size:
                msg = f"expected {share.size} rows of {output.name!r}, got {output.shape[0]}"
                raise Unsplittable(msg)
        return _Answers(opened[0][0], answers[0].headers)(share, 0, whole)


class _Answers:
    """Makes answers that differ in rows and ids alone."""

    def __init__(self, beside: Mapping[str, Raw], headers: Mapping[str, str]) -> None:
        self._identity = bytes(beside.get("id", b"null"))
        self._beside = _texts((name, text) for name, text in beside.items() if name != "id")
        self._headers = headers

    def __call__(self, share: TensorShare, number: int, outputs: Sequence[Tensor]) -> Message:
        identity = share.identity or self._of_our_own(number)
        text, tail = write_tensors(outputs)
        named = b'"id":' + identity + b"," if identity != b"null" else b""
        body = b"{" + self._beside + named + b'"outputs":' + text + b"}"
        return close_message(body, tail, self._headers)

    def _of_our_own(self, number: int) -> bytes:
        """Some servers make up an id where none came, but one for a batch."""
        if number and self._identity.startswith(b'"'):
            return self._identity[:-1] + b'-%d"' % number
        return self._identity


@lru_cache(_PATHS)
def _is_infer(path: str) -> bool:
    """Looked up, as it is asked twice for each request."""
    return _PATH.fullmatch(path) is not None


def _opened(answer: Message) -> tuple[dict[str, msgspec.Raw], list[Tensor]]:
    try:
        text, tail = open_message(answer)
        beside = members(text)
        outputs = read_tensors(beside.pop("outputs", b""), tail)
    except NotCuttable as error:
        raise Unsplittable(f"the answer is not cut: {error}") from error
    if not outputs or not all(output.shape for output in outputs):
        raise Unsplittable("expected outputs, and rows in each of them")
    return beside, outputs


def _joined(rows: Iterable[Sequence[Tensor]]) -> list[Tensor]:
    return [columns[0].join(columns) for columns in zip(*rows, strict=True)]


def _texts(named: Iterable[tuple[str, Raw]]) -> bytes:
    return b"".join(text_of(name) + b":" + bytes(text) + b"," for name, text in named)
