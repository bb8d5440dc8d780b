"""Tensors as TensorFlow Serving writes them: a row for each instance, or a column for each name."""

import base64

from tests.real_servers.tensorflow_serving.pretty import PrettyWriter, pretty


def in_rows(tensors):
    """`predictions`: bare values of a single tensor, or objects."""
    columns = {name: _nested(name, tensor) for name, tensor in tensors.items()}
    named = len(columns) > 1
    writer = PrettyWriter()
    writer.begin("{")
    writer.key("predictions")
    writer.begin("[")
    for row in zip(*columns.values(), strict=True):
        if named:
            writer.begin("{")
        writer.single_line = True
        for name, value in zip(columns, row, strict=True):
            if named:
                writer.key(name)
            writer.value(value)
        writer.single_line = False
        if named:
            writer.end("}")
    writer.end("]")
    writer.end("}")
    return writer.text()


def in_columns(tensors):
    """`outputs`: a single tensor, or tensors by name."""
    named = {name: _nested(name, tensor) for name, tensor in tensors.items()}
    return pretty({"outputs": named if len(named) > 1 else next(iter(named.values()))})


def _nested(name, tensor):
    values = tensor.values
    if name.endswith("_bytes"):
        values = [{"b64": base64.b64encode(each).decode()} for each in values]
    for size in reversed(tensor.shape[1:]):
        values = [values[begin : begin + size] for begin in range(0, len(values), size)]
    return values if tensor.shape else values[0]
