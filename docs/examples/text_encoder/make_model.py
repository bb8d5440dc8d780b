"""Writes encoder.onnx: a transformer of four layers with random weights, as slow as a trained one.

It takes ids of tokens and a mask of the same shape (batch, length), with 0 where a text is padded,
and returns one vector for each text: the mean over its tokens.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 8_192, 128, 4, 4, 2_048
random = np.random.default_rng(0)
nodes: list[onnx.NodeProto] = []
weights: list[onnx.TensorProto] = []


def weight(name: str, value: np.ndarray) -> str:
    weights.append(numpy_helper.from_array(value, name))
    return name


def add(operator: str, *inputs: str, output: str = "", **attributes: object) -> str:
    output = output or f"{operator}_{len(nodes)}"
    nodes.append(helper.make_node(operator, inputs, [output], **attributes))
    return output


def dense(x: str, name: str, rows: int, columns: int) -> str:
    scaled = random.normal(0, rows**-0.5, (rows, columns)).astype(np.float32)
    return add("MatMul", x, weight(name, scaled))


def normalized(x: str, name: str) -> str:
    scale = weight(f"{name}.scale", np.ones(WIDTH, np.float32))
    return add("LayerNormalization", x, scale, axis=-1)


def heads(x: str) -> str:
    """(batch, length, width) as (batch, head, length, width of a head)."""
    return add("Transpose", add("Reshape", x, "split"), perm=[0, 2, 1, 3])


def layer(x: str, n: int) -> str:
    query, key, value = (dense(x, f"{n}.{name}", WIDTH, WIDTH) for name in "qkv")
    scores = add("MatMul", heads(query), add("Transpose", heads(key), perm=[0, 1, 3, 2]))
    scores = add("Add", add("Mul", scores, "scale"), "hidden")
    mixed = add("MatMul", add("Softmax", scores, axis=-1), heads(value))
    merged = add("Reshape", add("Transpose", mixed, perm=[0, 2, 1, 3]), "merge")
    x = normalized(add("Add", x, dense(merged, f"{n}.o", WIDTH, WIDTH)), f"{n}.a")
    inner = add("Relu", dense(x, f"{n}.in", WIDTH, 4 * WIDTH))
    return normalized(add("Add", x, dense(inner, f"{n}.out", 4 * WIDTH, WIDTH)), f"{n}.b")


weight("split", np.array([0, 0, HEADS, WIDTH // HEADS]))
weight("merge", np.array([0, 0, WIDTH]))
weight("scale", np.array((WIDTH / HEADS) ** -0.5, np.float32))
weight("axes", np.array([1, 2]))
weight("last", np.array([2]))
weight("sum", np.array([1]))
weight("one", np.array(1, np.float32))
weight("far", np.array(-1e9, np.float32))
words = random.normal(0, 1, (VOCABULARY, WIDTH)).astype(np.float32)
places = random.normal(0, 0.1, (LONGEST, WIDTH)).astype(np.float32)

x = add("Gather", weight("words", words), "ids")
length = add("Shape", "ids", start=1, end=2)
begin = weight("begin", np.array([0]))
x = add("Add", x, add("Slice", weight("places", places), begin, length, begin))
shown = add("Cast", "mask", to=TensorProto.FLOAT)
add("Mul", add("Sub", "one", add("Unsqueeze", shown, "axes")), "far", output="hidden")
for number in range(LAYERS):
    x = layer(x, number)
kept = add("Mul", x, add("Unsqueeze", shown, "last"))
tokens = add("ReduceSum", shown, "sum", keepdims=1)
add("Div", add("ReduceSum", kept, "sum", keepdims=0), tokens, output="vectors")

shape = ["batch", "length"]
graph = helper.make_graph(
    nodes,
    "encoder",
    [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("ids", "mask")],
    [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", WIDTH])],
    weights,
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
onnx.checker.check_model(model, full_check=True)
onnx.save(model, "encoder.onnx")
print(f"{sum(np.prod(each.dims) for each in weights):,} weights")
