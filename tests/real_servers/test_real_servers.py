"""The sidecar before servers that others wrote: whatever it merges, nobody can tell from answers.

`uv run pytest -m real_servers`; docs/contributing.md has more.
"""

import os
from dataclasses import dataclass, replace

import pytest

from tests.real_servers import servers
from tests.real_servers.comparison import check
from tests.real_servers.processes import sidecar
from tests.real_servers.traffic import JSON, Asked, Traffic, lists, posted, tensors
from tests.real_servers.visits import plan, tell

COUNT = int(os.environ.get("REAL_SERVERS_REQUESTS", "600"))
pytestmark = [pytest.mark.real_servers, pytest.mark.timeout(900)]  # some minutes to install


@dataclass(frozen=True)
class Case:
    """A server, what it is asked, and what the sidecar is told."""

    server: servers.Server
    traffic: Traffic
    options: tuple[str, ...]


def number(random):
    return random.choice([random.randint(-(2**61), 2**61), random.random(), 1e300])


def image(random):
    return [random.randint(0, 16) for _ in range(64)]


def text(random):
    return "".join(random.choices("aeioxyz ", k=random.randint(1, 30)))


V1 = "/v1/models/whole:predict"
EMBEDDINGS = "/v1/embeddings"
CASES = {
    "triton": Case(servers.TRITON, tensors(binary=True), ("--protocol=open-inference",)),
    "triton-that-batches": Case(
        servers.TRITON_THAT_BATCHES,
        tensors(binary=True),
        ("--protocol=open-inference", "--concurrency=2"),
    ),
    "kserve-v1": Case(
        servers.KSERVE,
        lists(
            V1,
            number,
            -13,
            wrap=lambda items: {"instances": items},
            aside=[
                Asked("/v1/models/whole", method="GET"),
                posted("/v1/models/unknown:predict", {"instances": [1]}),
                posted(V1, {"inputs": [1]}),
                Asked(V1, b"no JSON", JSON),
            ],
        ),
        ("--protocol=kserve-v1",),
    ),
    "kserve-v2": Case(servers.KSERVE, tensors(binary=True), ("--protocol=open-inference",)),
    "mlserver": Case(servers.MLSERVER, tensors(binary=False), ("--protocol=open-inference",)),
    "litserve": Case(
        servers.LITSERVE,
        lists(
            EMBEDDINGS,
            text,
            "poison",
            wrap=lambda items: {"model": "letters", "input": items},
            aside=[
                Asked("/health", method="GET"),
                posted(EMBEDDINGS, {"model": "letters"}),
                posted(EMBEDDINGS, {"input": ["no model"]}),
                posted(EMBEDDINGS, {"model": "letters", "input": "a", "encoding_format": "base64"}),
                Asked(EMBEDDINGS, b"no JSON", JSON),
                Asked("/nowhere", method="GET"),
            ],
        ),
        ("--protocol=openai-embeddings",),
    ),
    "mosec": Case(
        servers.MOSEC,
        lists(
            "/inference",
            image,
            [1, 2, 3],
            wrap=lambda items: {"images": items},
            aside=[
                Asked("/", method="GET"),
                Asked("/inference", b"no JSON", JSON),
                Asked("/nowhere", method="GET"),
                posted("/inference", {"pictures": []}),
            ],
        ),
        ("--protocol=json", "--items=/images", "--results=/digits"),
    ),
    "bentoml": Case(
        servers.BENTOML,
        lists(
            "/reverse",
            text,
            "poison",
            wrap=lambda items: {"texts": items},
            aside=[
                Asked("/readyz", method="GET"),
                Asked("/reverse", b"no JSON", JSON),
                Asked("/nowhere", method="GET"),
                posted("/reverse", {"texts": "not a list"}),
            ],
        ),
        ("--protocol=bentoml", "--items=/texts"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_answers_are_those_of_the_server(case, tmp_path):
    """Each is what its client would have got directly, in batches and while others spoil them."""
    visits = plan(case.traffic, COUNT)
    options = ("--max-batch-size=32", *case.options)
    async with case.server.running(tmp_path) as upstream:
        async with sidecar(upstream, options, tmp_path / "sidecar.log") as url:
            through = await tell(url, visits)
        direct = await tell(upstream, [replace(each, leaves=None) for each in visits], at_a_time=4)
    check(visits, through, direct)
