"""In which of its codecs an endpoint reads a request and answers it.

Bodies are never looked at for that, and no header can name a codec that the endpoint lacks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.payloads.codecs import Codec
from adaptive_batching.payloads.contract import Contract

_UNSPECIFIC = {"", "application/x-www-form-urlencoded", "text/plain", *Codec.RAW.media_types}
_A_FORM = "a form: send the file itself, or declare codec='multipart'"
_REMEMBERED = 64  # clients differ in little

_Ranges = list[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Formats:
    """What was settled for a request.

    Attributes:
        reads: The place of the codec of its body.
        writes: The place of the codec of its answer.
        headers: The answer's; bytes of a model must not become a page.
        tagged: Whether the handler has to be told.
    """

    reads: int
    writes: int
    headers: Mapping[str, str]
    tagged: bool

    def item(self, body: bytes) -> Any:
        """What goes to the handler."""
        return (self.reads, self.writes, body) if self.tagged else body


class Negotiation:
    """Settles codecs by `Content-Type` and `Accept`, among those that were declared.

    What a client says that says nothing (`curl -d` calls everything a form) means the first one.

    Args:
        contract: Of the endpoint.

    Attributes:
        contract: The same.
        default: What is settled if a client says nothing.
    """

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self._media_types = contract.result.media_types()
        self._known: dict[tuple[str, str], Formats] = {}
        self.default = self._settle("", [])

    def settle(self, headers: Mapping[str, str]) -> Formats:
        """Find the codecs of a request with these headers.

        Raises:
            Rejected: It comes in none of them, or none of them is accepted.
        """
        said = headers.get("content-type", ""), headers.get("accept", "")
        known = self._known.get(said)
        if known is None:
            known = self._settle(_essence(said[0]), _ranges(said[1]))
            is_another_each_time = "boundary" in said[0]
            if len(self._known) < _REMEMBERED and not is_another_each_time:
                self._known[said] = known
        return known

    def _settle(self, content_type: str, accepted: _Ranges) -> Formats:
        reads = self._reader_of(content_type)
        writes = self._writer_of(accepted, reads)
        headers = {"Content-Type": self._media_types[writes], "X-Content-Type-Options": "nosniff"}
        return Formats(reads, writes, headers, self.contract.has_choice)

    def _reader_of(self, content_type: str) -> int:
        codecs = self.contract.item.codecs
        for place, codec in enumerate(codecs):
            if content_type in codec.media_types:
                return place
        if content_type in _UNSPECIFIC:
            return 0
        is_form = content_type.startswith("multipart/")  # whose envelope is no item
        if Codec.RAW in codecs and not is_form:  # of any type: an image is a raw body
            return codecs.index(Codec.RAW)
        spoken = ", ".join(codec.media_types[0] for codec in codecs)
        got = _A_FORM if is_form else "another one"
        message = f"expected a body of {spoken}, got {got}"
        raise Rejected(415, "unsupported_media_type", headers={"Accept": spoken}, message=message)

    def _writer_of(self, accepted: _Ranges, reads: int) -> int:
        usual = self.contract.writes(reads)
        if not accepted:
            return usual
        places = sorted(range(len(self._media_types)), key=lambda place: place != usual)
        best = max(places, key=lambda place: _quality(self._media_types[place], accepted))
        if not _quality(self._media_types[best], accepted):
            raise Rejected(406, "not_acceptable")
        return best


def example_items(contract: Contract, bodies: Sequence[bytes]) -> list[Any]:
    """An endpoint's examples, as they reach the handler's worker: in the first codec."""
    formats = Negotiation(contract).default
    return [formats.item(body) for body in bodies]


def _essence(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _ranges(accept: str) -> _Ranges:
    """Media ranges with what each is worth, from 0 for "not at all" to 1 (RFC 9110, 12.5.1)."""
    ranges = []
    for part in filter(None, map(str.strip, accept.split(","))):
        media_range, *parameters = part.lower().split(";")
        worth = [each.strip()[2:] for each in parameters if each.strip().startswith("q=")]
        try:
            quality = float(worth[0]) if worth else 1.0
        except ValueError:
            continue
        ranges.append((media_range.strip(), quality))
    return ranges


def _quality(media_type: str, accepted: _Ranges) -> float:
    """What the most specific range says that a media type is in."""
    essence = _essence(media_type)
    qualities = dict(accepted)
    for media_range in (essence, f"{essence.partition('/')[0]}/*", "*/*"):
        if media_range in qualities:
            return qualities[media_range]
    return 0.0
