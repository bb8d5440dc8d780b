"""What a load generator is told, and what it tells when it is done."""

import enum

from msgspec import Struct, field

JSON = {"Content-Type": "application/json"}


class OpenLoop(Struct, frozen=True, kw_only=True, tag=True):
    """Requests at instants that were drawn before the first one left, whatever the answers do.

    Attributes:
        url: Where they are posted.
        bodies: JSON bodies, sent by turns.
        instants: When (seconds from the beginning), in order; drawn from the phases if empty.
        phases: Mean requests a second and seconds, one phase after another.
        seed: The same instants for the same seed.
        connections: Open at a time; the time that a request waits for a free one counts.
        patience: Seconds after which an answer is given up.
        retries: How many times a request that was not answered is sent again, at the most.
        backoff: Seconds until the first time; each later one takes twice as long, and all are
            spread by half.
    """

    url: str
    bodies: list[bytes]
    instants: list[float] = []
    phases: list[tuple[float, float]] = []
    seed: int = 0
    connections: int = 512
    patience: float = 60.0
    retries: int = 0
    backoff: float = 0.05


class ClosedLoop(Struct, frozen=True, kw_only=True, tag=True):
    """Clients that send the next request when they have their answer.

    Attributes:
        url: Where they are posted.
        bodies: Sent by turns.
        answers: What the answer to each body contains; empty if answers are not compared.
        headers: Of every request, beside an `X-Request-Id` and a `traceparent`.
        repeated: Whether these two are the same in every request. Otherwise no two heads are the
            same, as in real traffic.
        connections: Clients.
        duration: Seconds.
    """

    url: str
    bodies: list[bytes]
    answers: list[bytes] = []
    headers: dict[str, str] = field(default_factory=JSON.copy)
    repeated: bool = False
    connections: int = 64
    duration: float = 5.0


class End(enum.Enum):
    """How a request ended; every one ends in exactly one way."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """503 or 504: turned away, or too late in the queue."""
    ERROR = "error"
    """Any other status, a broken connection, or no answer within the patience."""


class Answer(Struct, frozen=True, array_like=True):
    """What became of one request of an open loop, or of its being sent again. Times in seconds.

    Attributes:
        item: Which of the bodies was sent.
        scheduled: When it was to be sent, from the beginning.
        lag: How much later the generator got round to it.
        latency: From `scheduled`, not from the sending, to the last byte of the answer: a generator
            that falls behind may not hide what its requests would have waited.
        status: Of the response; 0 if there was none.
        body: Of the response, or what went wrong with the connection.
        sent_before: How many times this request was sent before, each time with an answer like
            this one that was not good.
    """

    item: int
    scheduled: float
    lag: float
    latency: float
    status: int
    body: bytes
    sent_before: int = 0

    @property
    def end(self) -> End:
        """How it ended."""
        if 200 <= self.status < 300:
            return End.ANSWERED
        return End.REFUSED if self.status in {503, 504} else End.ERROR


class Throughput(Struct, frozen=True, kw_only=True):
    """What a closed loop came to. Times in seconds.

    Attributes:
        requests: Responses, good and bad.
        failed: Responses other than 2xx, wrong answers, and broken connections.
        duration: From the beginning to the end.
        p50: Median latency.
        p99: 99th percentile of the latency.
        busy: Share of a core that the generator used; near 1 it is what limits the rate.
    """

    requests: int
    failed: int
    duration: float
    p50: float
    p99: float
    busy: float

    @property
    def rate(self) -> float:
        """Good responses a second."""
        return max(0, self.requests - self.failed) / self.duration
