"""What a service and its fronts say to each other; both ends are ours, and nothing is unpickled."""

from typing import TypeAlias

import msgspec


class _Message(msgspec.Struct, array_like=True, tag=True):
    """An array that begins with its name."""


class LaneOfService(_Message):
    """What a front has to know of an endpoint.

    Attributes:
        path: Where it is.
        item_codecs: In which forms items come.
        result_codecs: In which forms results go.
        text: Whether raw results are texts.
        max_latency: Seconds from a request's arrival to its answer.
        max_body: Bytes that a body may have.
    """

    path: str
    item_codecs: list[str]
    result_codecs: list[str]
    text: bool
    max_latency: float
    max_body: int


class Begin(_Message):
    """To a front: where to listen, and for what."""

    host: str
    port: int
    max_in_flight: int
    body_timeout: float
    lanes: list[LaneOfService]


class Listening(_Message):
    """From a front: it does, or why it can't."""

    url: str
    problem: str = ""


class Ask(_Message):
    """From a front: a request, by a number that its answer has as well.

    Attributes:
        number: Of this front's requests.
        lane: Which endpoint, in the order of `Begin.lanes`.
        name: The request's id.
        within: Seconds until its answer.
        choice: Which codecs were settled, where there is a choice.
        body: As it came.
    """

    number: int
    lane: int
    name: str
    within: float
    choice: tuple[int, int] | None
    body: bytes


class AskReady(_Message):
    """From a front: what `/readyz` should answer."""

    number: int
    deep: bool


class Withdraw(_Message):
    """From a front: the client has gone."""

    number: int


class Reply(_Message):
    """To a front: what the client is told; headers only where it is no result."""

    number: int
    status: int
    headers: dict[str, str]
    body: bytes


class Counts(_Message):
    """From a front: what it has done since it last said so.

    Attributes:
        responses: Answers by path (or `other`) and status.
        dropped: Connections that were one too many.
    """

    responses: dict[str, dict[int, int]]
    dropped: int


class Retuned(_Message):
    """To a front: the same endpoints as in `Begin`, with other limits."""

    lanes: list[LaneOfService]


class Drain(_Message):
    """To a front: let clients go elsewhere; what comes is answered all the same."""


class Leave(_Message):
    """To a front: listen no more, answer what comes on open connections, and end."""


ToFront: TypeAlias = Begin | Reply | Retuned | Drain | Leave
FromFront: TypeAlias = Listening | Ask | AskReady | Withdraw | Counts
