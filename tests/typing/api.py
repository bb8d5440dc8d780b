"""What a type checker sees of the public API. Checked by mypy in strict mode, never run."""

from collections.abc import Sequence
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

from adaptive_batching import (
    Batched,
    Handle,
    Pipeline,
    Processes,
    Stage,
    Stats,
    batched,
    cooperative,
)


@batched(max_latency=0.1)
async def lengths(texts: list[str]) -> list[int]:
    return [len(text) for text in texts]


@batched()
def halves(numbers: list[int]) -> list[float]:
    return [number / 2 for number in numbers]


@batched()
def pairs(numbers: list[int]) -> tuple[str, ...]:
    return tuple(map(str, numbers))


class Model:
    @batched(max_batch_size=8)
    async def embed(self, texts: list[str]) -> list[bytes]:
        return [text.encode() for text in texts]

    @batched(workers=2)
    def score(self, texts: list[str]) -> Sequence[float]:
        return [0.0 for _ in texts]


class _Classifier:
    def __call__(self, texts: list[str]) -> list[bool]:
        return [bool(text) for text in texts]


class _AsyncClassifier:
    async def __call__(self, texts: list[str]) -> list[bool]:
        return [bool(text) for text in texts]


class _Decoder:
    def preprocess(self, body: bytes) -> str:
        return body.decode()

    def __call__(self, texts: list[str]) -> list[bool]:
        return [bool(text) for text in texts]


class _Renderer:
    async def __call__(self, texts: list[str]) -> list[int]:
        return [len(text) for text in texts]

    async def postprocess(self, result: int) -> float:
        return float(result)


class _Converter(_Decoder):
    def postprocess(self, result: object) -> float:
        return 1.0 if result else 0.0


class _Embedder:
    def __init__(self, path: str) -> None: ...

    def preprocess(self, text: str) -> NDArray[np.float32]:
        return np.zeros(3, np.float32)

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        return x


class _Norm:
    def __call__(
        self, x: NDArray[np.float32], lengths: NDArray[np.int64]
    ) -> dict[str, NDArray[np.float32]]:
        return {"norm": x}


class _Tensor:
    def numpy(self, *, force: bool = False) -> NDArray[np.float32]:
        return np.zeros(3, np.float32)


@batched
def doubled(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return 2 * x


@batched(max_batch_size=8)
async def of_tensor(x: _Tensor) -> _Tensor:
    return x


# Not as decorators: mypy takes a decorated class for the class itself (python/mypy#3135).
classify = batched(workers=Processes(2), cpus=None)(_Classifier)
classify_async = batched(workers=2, cpus=[0, [1, 2]], policy="window:2ms")(_AsyncClassifier)

decode = batched()(_Decoder)
embed = batched(init_args={"path": "model"})(_Embedder)
norm = batched()(_Norm)
render = batched()(_Renderer)
convert = batched()(_Converter)


async def calls(model: Model) -> None:
    assert_type(await lengths("a"), int)
    assert_type(await lengths("a", key=("en", 3), max_latency=0.5), int)
    assert_type(await halves(1), float)
    assert_type(await pairs(1), str)
    assert_type(await model.embed("a"), bytes)
    assert_type(await model.score("a"), float)
    assert_type(await classify("a"), bool)
    assert_type(await classify_async("a"), bool)
    assert_type(await decode(b"a"), bool)
    assert_type(await render("a"), float)
    assert_type(await convert(b"a"), float)
    vector = np.zeros(3, np.float32)
    await embed("text")
    await norm(vector)
    await doubled(vector)
    await of_tensor(vector)
    await doubled("a")  # type: ignore[arg-type]
    await embed(vector)  # type: ignore[arg-type]


async def many(model: Model) -> None:
    assert_type(await lengths.map(["a", "b"]), list[int])
    assert_type(await model.embed.map(text for text in ("a", "b")), list[bytes])
    assert_type(await classify.map({"a", "b"}), list[bool])


def from_threads(texts: list[str]) -> None:
    assert_type(lengths.call_from_thread("a"), int)
    queue = cooperative(classify_here, max_batch_size=8)
    assert_type(queue.call("a"), bool)
    assert_type(queue.call_many(texts), list[bool])
    assert_type(queue.submit("a"), Handle[bool])
    assert_type(queue.submit_many(texts).result(timeout=1.0), list[bool])
    queue.call(1)  # type: ignore[arg-type]
    rows = cooperative(rows_here)
    rows.call(np.zeros(3, np.float32))
    rows.call("a")  # type: ignore[arg-type]


def rows_here(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return x


def classify_here(texts: list[str]) -> list[bool]:
    return [bool(text) for text in texts]


async def through_stages() -> None:
    async with Pipeline[str, int]([Stage(len), Stage(abs)], max_latency=1.0) as pipeline:
        assert_type(await pipeline("a"), int)
        assert_type(await pipeline.map(["a"]), list[int])
        assert_type(pipeline.call_from_thread("a"), int)
        assert_type(pipeline.stats().stages[0], Stats)


async def life_cycle(model: Model) -> None:
    async with lengths as entered:
        assert_type(entered, Batched[str, int])
    async with model.embed:
        assert_type(model.embed, Batched[str, bytes])
    assert_type(lengths.stats(), Stats)
    await halves.start()
    await halves.aclose(timeout=1.0)


# ----------------------------------------------------- what must not pass; an ignore too many fails


async def wrong_calls(model: Model) -> None:
    await lengths(1)  # type: ignore[arg-type]
    await lengths(["a"])  # type: ignore[arg-type]
    await lengths()  # type: ignore[call-arg]
    await lengths("a", "b")  # type: ignore[call-arg]
    await lengths(texts="a")  # type: ignore[call-arg]
    await lengths("a", max_latency=["1s"])  # type: ignore[arg-type]
    await model.embed(b"a")  # type: ignore[arg-type]
    await classify(1)  # type: ignore[arg-type]
    await lengths.map([1, 2])  # type: ignore[list-item]
    lengths("a").upper()  # type: ignore[attr-defined]


batched(max_batch_size="8")  # type: ignore[call-overload]
batched(8)  # type: ignore[call-overload]
batched(workers=2.5)  # type: ignore[call-overload]
