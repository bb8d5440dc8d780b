"""Requests of tensors as clients write them: flat, nested or in bytes, of any elements."""

import json
from math import prod
from struct import pack

from hypothesis import strategies as st

from adaptive_batching.wire.exchange import Message, Request
from adaptive_batching.wire.splice import text_of
from tests.wire.texts import lenient_numbers, names

INFER = "/v2/models/digits/infer"
JSON_LENGTH = "inference-header-content-length"


@st.composite
def signatures(draw):
    """What requests have in common: name, type, row and layout of each input."""
    inputs = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    rows = st.lists(st.integers(1, 3), max_size=2)
    types = st.sampled_from(["FP32", "INT64", "BOOL", "BYTES"])
    layouts = st.sampled_from(["flat", "nested", "binary"])
    return [(name, draw(types), draw(rows), draw(layouts)) for name in inputs]


@st.composite
def batches(draw, signature):
    """Some rows: for each input the elements, as text or as bytes."""
    size = draw(st.integers(1, 4))
    return size, [
        draw(st.lists(_element(datatype, layout), min_size=count, max_size=count))
        for _, datatype, row, layout in signature
        for count in [size * prod(row)]
    ]


def _element(datatype, layout):
    if layout != "binary":
        return names.map(json.dumps) if datatype == "BYTES" else lenient_numbers
    if datatype == "BYTES":
        return st.binary(max_size=5).map(lambda text: pack("<I", len(text)) + text)
    size = {"FP32": 4, "INT64": 8, "BOOL": 1}[datatype]
    return st.binary(min_size=size, max_size=size)


def written(signature, batch, member="inputs", **beside):
    """A message of these tensors."""
    size, columns = batch
    tensors, tail = [], b""
    for (name, datatype, row, layout), elements in zip(signature, columns, strict=True):
        text = f'{{"name":{text_of(name).decode()},"shape":{_list([size, *row])}'
        text += f',"datatype":"{datatype}"'
        if layout == "binary":
            data = b"".join(elements)
            tail += data
            text += f',"parameters":{{"binary_data_size":{len(data)}}}}}'
        else:
            text += f',"data":{data_text(elements, [size, *row], layout)}}}'
        tensors.append(text)
    others = "".join(f'"{name}":{value},' for name, value in beside.items())
    body = f'{{{others}"{member}":[{",".join(tensors)}]}}'.encode()
    return Message(body + tail, {JSON_LENGTH: str(len(body))} if tail else {})


def data_text(elements, shape, layout):
    """An array of elements, flat or nested."""
    if layout == "flat" or len(shape) == 1:
        return _list(elements)
    row = prod(shape[1:])
    rows = [elements[begin : begin + row] for begin in range(0, len(elements), row)]
    return _list(data_text(each, shape[1:], layout) for each in rows)


def request(message, path=INFER):
    """A request to infer."""
    return Request("POST", path, message)


def echo(message):
    """What a server answers whose outputs are its inputs."""
    length = message.headers.get(JSON_LENGTH)
    sent = b"".join([message.body, *message.tail])
    end = len(sent) if length is None else int(length)
    text = sent[:end].replace(b'"inputs":', b'"outputs":', 1)
    headers = {} if length is None else {JSON_LENGTH: str(len(text))}
    return Message(text + sent[end:], headers)


def _list(numbers):
    return "[" + ",".join(map(str, numbers)) + "]"
