"""`classify` and `regress`: examples of features, which may share a context."""

import numpy as np

from tests.real_servers.tensorflow_serving.models import half_plus_two, refuse
from tests.real_servers.tensorflow_serving.pretty import PrettyWriter, pretty
from tests.real_servers.tensorflow_serving.tensors import as_float, invalid, type_of


def read_examples(document):
    """The features of each example, and of the context they share."""
    context = _features(document["context"]) if "context" in document else {}
    told = f"JSON Value: {pretty(document)}"
    if "examples" not in document:
        raise invalid(
            f"{told} When method is classify, key 'examples' is expected and was not found"
        )
    examples = document["examples"]
    if not isinstance(examples, list):
        raise invalid(f"{told} Expecting 'examples' value to be an list/array")
    if not examples:
        raise invalid(f"{told} 'examples' value is an empty array")
    return [{**context, **_features(each)} for each in examples]


def _features(example):
    if not isinstance(example, dict):
        raise invalid(f"Example must be JSON object but got JSON {type_of(example)}")
    return {name: _feature(name, value) for name, value in example.items()}


def _feature(name, value):
    values = value if isinstance(value, list) else [value]
    for each in values:
        if isinstance(each, list | dict | None):
            raise invalid(f"Feature: {name} has element with unexpected JSON type: {type_of(each)}")
    if len({type(each) for each in values}) > 1:
        raise invalid(f"Unexpected element type in feature: {name} expecting type: float")
    return [as_float(each) if isinstance(each, float) else each for each in values]


def computed(examples):
    """What `half_plus_two` makes of feature `x`, and of `b` in the context."""
    rows = []
    for number, features in enumerate(examples):
        if "x" not in features:
            raise invalid(
                f"Name: <unknown>, Key: x, Index: {number}.  Number of float values != expected.  "
                "Values size: 0 but output shape: [1]"
            )
        x, bias = features["x"], features.get("b", [np.float32(0)])
        if not all(isinstance(each, np.floating) for each in x + bias):
            raise invalid(
                f"Name: <unknown>, Key: x, Index: {number}.  Data types don't match. "
                "Expected type: float"
            )
        refuse(x)
        rows.append(half_plus_two(x[0]) + bias[0])
    return rows


def classified(scores):
    """A list of classes and scores for each."""
    writer = PrettyWriter()
    writer.begin("{")
    writer.key("results")
    writer.begin("[")
    for score in scores:
        writer.single_line = True
        writer.value([["", score]])
        writer.single_line = False
    writer.end("]")
    writer.end("}")
    return writer.text()


def regressed(values):
    """A number for each."""
    writer = PrettyWriter()
    writer.begin("{")
    writer.key("results")
    writer.single_line = True
    writer.value(values)
    writer.end("}")
    return writer.text()
