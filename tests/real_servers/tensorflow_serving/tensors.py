"""What TensorFlow Serving makes of JSON, and how it complains: its `json_tensor.cc`."""

import base64
import binascii
import json
from dataclasses import dataclass

import numpy as np

from tests.real_servers.tensorflow_serving.pretty import pretty


class StatusError(Exception):
    """One of TensorFlow's, as HTTP."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def invalid(message):
    """INVALID_ARGUMENT."""
    return StatusError(400, message)


@dataclass
class Tensor:
    """Values in row-major order; of strings, bytes."""

    shape: list[int]
    values: list


def parsed(body):
    """The object of a request."""
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    try:
        document = json.loads(body)
    except ValueError as error:
        offset = getattr(error, "pos", 0)
        raise invalid(f"JSON Parse error: Invalid value. at offset: {offset}") from error
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {pretty(document)} Is not object")
    signature = document.get("signature_name", "")
    if not isinstance(signature, str):
        raise invalid(
            f"JSON Value: {pretty(document)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    return document


def from_instances(instances, types):
    """A tensor for each name, whose first dimension is the rows."""
    plain = not _is_named(instances[0])
    if plain and len(types) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required as per tensorinfo_map"
        )
    found = {}
    for number, each in enumerate(instances):
        if _is_named(each) == plain:
            expected, got = ("value/list", "object") if plain else ("object", "list")
            raise invalid(f"Expecting {expected} but got {got} at item {number} of input list")
        _add_instance(found, number, {next(iter(types)): each} if plain else each, types, plain)
    return {
        name: Tensor([len(rows), *rows[0].shape], [each for row in rows for each in row.values])
        for name, rows in found.items()
    }


def _add_instance(found, number, named, types, plain):
    for name, value in named.items():
        try:
            found.setdefault(name, []).append(_row(value, name, types, found.get(name)))
        except StatusError as error:
            key = "" if plain else f" key: {name}"
            why = f"of 'instances' list. Error: INVALID_ARGUMENT: {error}"
            raise invalid(f"Failed to process element: {number}{key} {why}") from error
    if named.keys() != types.keys():
        raise invalid(
            f"Failed to process element: {number} of 'instances' list. JSON object: "
            f"{pretty(named)} keys must be equal to: {','.join(sorted(types))}"
        )


def _row(value, name, types, before):
    if name not in types:
        raise invalid(f"JSON object: does not have named input: {name}")
    row = tensor(value, types[name])
    first = before[0] if before else row
    if len(first.values) != len(row.values):
        raise invalid(f"Expecting tensor size: {len(first.values)} but got: {len(row.values)}")
    if first.shape != row.shape:
        expected, got = (str(each.shape).replace(" ", "") for each in (first, row))
        raise invalid(f"Expecting shape {expected} but got: {got}")
    return row


def from_inputs(inputs, types):
    """A tensor for each name, of any dimensions."""
    if not _is_named(inputs):
        if len(types) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple "
                "input tensors required as per tensorinfo_map"
            )
        name = next(iter(types))
        return {name: tensor(inputs, types[name])}
    missing = next((name for name in types if name not in inputs), None)
    if missing:
        raise invalid(f"Missing named input: {missing} in 'inputs' object.")
    return {name: tensor(inputs[name], dtype) for name, dtype in types.items()}


def tensor(value, dtype):
    """Of nested lists that all have the lengths of the first ones."""
    shape, inner = [], value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    values = []
    _fill(value, 0, shape, dtype, values)
    return Tensor(shape, values)


def _fill(value, level, shape, dtype, values):
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {pretty(value)} found at incorrect level: {level + 1} "
                f"in the JSON DOM. Expected at level: {len(shape)}"
            )
        values.append(_scalar(value, dtype))
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level]}"
        )
    for each in value:
        _fill(each, level + 1, shape, dtype, values)


def _scalar(value, dtype):
    if dtype == "string" and isinstance(value, dict):
        return _from_base64(value)
    if dtype == "string" and isinstance(value, str):
        return value.encode()
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if dtype == "int64" and number and isinstance(value, int):
        return value
    if dtype == "float" and number:
        return as_float(value)
    raise invalid(
        f"JSON Value: {pretty(value)} Type: {type_of(value)} is not of expected type: {dtype}"
    )


def as_float(value):
    """In 32 bits, if they hold it."""
    exact = abs(value) < 2**24 if isinstance(value, int) else abs(value) <= np.finfo("f4").max
    if exact or not np.isfinite(value):
        return np.float32(value)
    raise invalid(f"Cannot convert JSON value: {pretty(value)} to float without loss of precision.")


def _from_base64(value):
    if not _is_base64(value):
        raise invalid(f"JSON Value: {pretty(value)} not formatted correctly for base64 data")
    try:
        return base64.b64decode(value["b64"], validate=True)
    except binascii.Error as error:
        raise invalid("Unable to base64 decode") from error


def _is_base64(value):
    return value.keys() == {"b64"} and isinstance(value["b64"], str)


def _is_named(value):
    return isinstance(value, dict) and not _is_base64(value)


def type_of(value):
    """RapidJSON's name of it."""
    if value is None or isinstance(value, bool):
        return {None: "Null", True: "True", False: "False"}[value]
    names = {dict: "Object", list: "Array", str: "String"}
    return names.get(type(value), "Number")
