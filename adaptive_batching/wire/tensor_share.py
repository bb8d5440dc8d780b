"""Which requests of the Open Inference Protocol may share a batch, and what each brings there."""

from collections.abc import Hashable, Iterable, Mapping, Sequence

import msgspec

from adaptive_batching.wire.brief import brief
from adaptive_batching.wire.exchange import Message, Request, as_it_came
from adaptive_batching.wire.splice import MOST_ITEMS, NotCuttable, Raw, members, object_of
from adaptive_batching.wire.tensor_messages import JSON_LENGTH, open_message, read_tensors
from adaptive_batching.wire.tensors import Parameters, Tensor

_OF_A_WHOLE = ("sequence_", "shared_memory_", "triton_", "classification")
"""What such parameters ask for is done for a request as a whole."""
_OF_A_QUEUE = ("priority", "timeout")
"""What these tell the server's queue must not befall those that came with others."""


class _Output(msgspec.Struct, forbid_unknown_fields=True):
    """An output that is asked for."""

    name: str
    parameters: Parameters | None = None


_outputs = msgspec.json.Decoder(list[_Output] | None)


class TensorShare(msgspec.Struct, frozen=True):
    """A request of tensors, all with the same first dimension.

    Attributes:
        key: All but the rows and the id.
        tensors: Its inputs.
        beside: The texts of the other members of its JSON.
        identity: The text of its id; None if it has none.
        own: The whole of it as it came; None for a piece of a request.
        about: The headers of its body.
    """

    key: Hashable
    tensors: Sequence[Tensor]
    beside: Sequence[tuple[str, bytes]]
    identity: bytes | None
    own: Message | None
    about: Mapping[str, str]

    @property
    def size(self) -> int:
        """Rows that it brings."""
        return self.tensors[0].shape[0]

    def row_bytes(self) -> Sequence[float]:
        """The bytes of each row, as they came."""
        columns = [tensor.row_bytes() for tensor in self.tensors]
        return columns[0] if len(columns) == 1 else list(map(sum, zip(*columns, strict=True)))


def share_of(request: Request) -> TensorShare:
    """Understand a request.

    Raises:
        NotCuttable: It can't share a batch.
    """
    text, tail = open_message(request.message)
    named = members(text, bounded=True)
    tensors = read_tensors(named.pop("inputs", b""), tail, bounded=True)
    if sum(tensor.strings for tensor in tensors) > MOST_ITEMS:
        raise NotCuttable(f"expected at most {MOST_ITEMS} strings")
    layouts = tuple(tensor.check() for tensor in tensors)
    if len({tensor.shape[0] for tensor in tensors}) != 1:
        raise NotCuttable("expected inputs with the same first dimension")
    identity = named.pop("id", None)
    beside = tuple(_beside(named)) if named else ()
    for tensor in tensors:
        _check_of_rows(tensor.parameters)
    if "outputs" in named:
        _check_outputs(named["outputs"])
    kinds = tuple(tensor.kind for tensor in tensors)
    own = as_it_came(request.message, JSON_LENGTH)
    key = request.path, own.headers.get("content-type"), brief((kinds, layouts, beside))
    named_as = None if identity is None else bytes(identity)
    return TensorShare(key, tensors, beside, named_as, own, own.headers)


def _beside(named: dict[str, msgspec.Raw]) -> Iterable[tuple[str, bytes]]:
    """The members in an order of ours, without what only matters in the server's queue."""
    for name, text in sorted(named.items()):
        if name != "parameters":
            yield name, bytes(text)
        elif text != msgspec.Raw(b"null"):
            parameters = members(text, bounded=True)
            _check_of_rows(parameters)
            rest = sorted((key, parameters[key]) for key in parameters if key not in _OF_A_QUEUE)
            if rest:
                yield name, object_of(rest)


def _check_outputs(text: Raw) -> None:
    try:
        outputs = _outputs.decode(text) or ()
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotCuttable(f"expected outputs to be asked for by name: {error}") from error
    for output in outputs:
        _check_of_rows(output.parameters or ())


def _check_of_rows(parameters: Iterable[str]) -> None:
    for name in parameters:
        if name.startswith(_OF_A_WHOLE):
            raise NotCuttable(f"{name!r} is said of a request as a whole")
