"""Models of other libraries as handlers."""

import asyncio
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from adaptive_batching import Threads, batched, contrib
from adaptive_batching.contrib.langchain import batched_embeddings
from adaptive_batching.contrib.onnxruntime import OnnxModel
from adaptive_batching.contrib.sentence_transformers import PairScorer, SentenceEncoder
from adaptive_batching.contrib.transformers import TransformersPipeline
from adaptive_batching.errors import InvalidItem, ReentrantCall

STAND_INS = str(Path(__file__).parent / "stand_ins")


@pytest.fixture
def stand_ins(monkeypatch):
    """Packages with the interface of those whose weights can't be had; workers find them, too."""
    monkeypatch.syspath_prepend(STAND_INS)
    yield
    for name in ("sentence_transformers", "transformers"):
        sys.modules.pop(name, None)


def test_wrappers_are_short():
    """Each can be read as a whole; the middleware of packed requests is a protocol instead."""
    modules = {*Path(contrib.__path__[0]).glob("*.py")}
    lengths = {each.stem: len(each.read_text().splitlines()) for each in modules}
    assert {name for name, length in lengths.items() if length > 80} == {"packed"}


@pytest.mark.parametrize("placement", [1, Threads(1)], ids=["process", "thread"])
async def test_texts_are_encoded_in_one_pass(stand_ins, placement):
    """A batch is a pass, with the options of the constructor, whatever builds the model."""
    args = {"model": "tiny", "load": {"device": "cpu"}, "encode": {"normalize_embeddings": True}}
    decorate = batched(workers=placement, max_batch_size=3, policy="window:1h", init_args=args)
    async with decorate(SentenceEncoder) as encode:
        rows = await asyncio.gather(*map(encode, ["a", "bb", "ccc"]))
    assert np.array_equal(rows, [[1, 3, 1], [2, 3, 1], [3, 3, 1]])


async def test_pairs_are_scored(stand_ins):
    """Each gets its own score."""
    args = {"model": "tiny", "predict": {"activation_fn": None}}
    async with batched(workers=Threads(1), init_args=args)(PairScorer) as score:
        assert await score.map([("question", "answer"), ("a", "b")]) == [2.0, 0.0]


async def test_a_pipeline_of_transformers(stand_ins):
    """A bare result of a list of one is that one's, as of several."""
    args = {"task": "text-classification", "load": {"model": "tiny"}, "call": {"top_k": 1}}
    async with batched(workers=Threads(1), init_args=args)(TransformersPipeline) as classify:
        answers = await classify.map(["good", "bad"])
        assert [*answers, await classify("alone")] == [
            {"label": text} for text in ("GOOD", "BAD", "ALONE")
        ]


def model(path, *, batch="batch", inputs=("x", "y"), outputs=("sum", "product")):
    """Write a model; the sum of its only input is that with itself."""
    operands = [inputs[0], inputs[-1]]
    nodes = [helper.make_node("Add", operands, ["sum"])]
    nodes += [helper.make_node("Mul", operands, ["product"])]
    shape = [batch, 2] if batch else []
    values, made = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names]
        for names in (inputs, outputs)
    )
    graph = helper.make_graph(nodes, "tiny", values, made)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


async def test_a_model_of_onnx_takes_arrays_and_an_odd_one_fails_alone(tmp_path):
    """Each gets its row, and the one that does not fit is told the shape that does."""
    path = model(tmp_path / "one.onnx", inputs=["x"], outputs=["sum"])
    decorate = batched(workers=Threads(1), policy="window:20ms", init_args={"path": path})
    async with decorate(OnnxModel) as double:
        items = [[1, 2], np.asarray([3.0, 4.0]), [1, 2, 3], ["a", "b"]]
        good, other, long, texts = await asyncio.gather(*map(double, items), return_exceptions=True)
    assert np.array_equal([good, other], [[2, 4], [6, 8]])
    assert isinstance(long, InvalidItem)
    assert str(long) == "$.x: expected shape [2], got [3]"
    assert "$.x: expected an array of float" in str(texts)


async def test_a_model_of_onnx_with_several_inputs_and_outputs(tmp_path):
    """Items and results are dicts by name; what is missing is named."""
    args = {"path": model(tmp_path / "two.onnx")}
    async with batched(workers=Threads(1), init_args=args)(OnnxModel) as both:
        answer = await both({"x": [1, 2], "y": [3, 4]})
        assert {name: row.tolist() for name, row in answer.items()} == {
            "sum": [4, 6],
            "product": [3, 8],
        }
        with pytest.raises(InvalidItem, match=r"expected arrays for \['x', 'y'\], got \['x'\]"):
            await both([1, 2])


@pytest.mark.parametrize("batch", [1, None])
def test_a_model_of_onnx_that_can_not_batch(tmp_path, batch):
    """It is told at its start, with what to do."""
    with pytest.raises(ValueError, match=r"takes batches of 1 only: export .* dynamic first axis"):
        OnnxModel(model(tmp_path / "fixed.onnx", batch=batch))


async def test_embeddings_of_langchain_share_batches():
    """Of threads and of the loop; queries have a function of their own if there is one."""
    sizes = []

    @batched(max_batch_size=4, policy="window:1h")
    async def embed(texts):
        sizes.append(len(texts))
        return np.asarray([[len(text), 0.5] for text in texts])

    @batched
    async def embed_query(texts):
        return [[0.0] for _ in texts]

    async with embed, embed_query:
        embeddings = batched_embeddings(embed, embed_query)
        there = asyncio.create_task(asyncio.to_thread(embeddings.embed_documents, ["a", "bb"]))
        here = await embeddings.aembed_documents(["ccc", "dddd"])
        assert [*await there, *here] == [[n, 0.5] for n in (1, 2, 3, 4)]
        assert all(type(number) is float for vector in here for number in vector)
        assert await embeddings.aembed_query("?") == [0.0]
        assert await asyncio.to_thread(embeddings.embed_query, "?") == [0.0]
        with pytest.raises(ReentrantCall, match="await it here"):
            embeddings.embed_documents(["a"])
    assert sizes == [4]
