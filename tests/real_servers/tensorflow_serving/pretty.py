"""JSON as TensorFlow Serving writes it: RapidJSON's `PrettyWriter`, its odd line ends included."""

import json

import numpy as np


class PrettyWriter:
    """Of nested values; lists are in one line while `single_line` is set."""

    def __init__(self):
        self.single_line = False
        self._parts = []
        self._open = []  # a kind and how many values, for each list or object that is open

    def text(self):
        return "".join(self._parts)

    def begin(self, bracket):
        self._prefix()
        self._parts.append(bracket)
        self._open.append([bracket, 0])

    def end(self, bracket):
        opening, values = self._open.pop()
        if values and not (opening == "[" and self.single_line):
            self._new_line()
        self._parts.append(bracket)

    def key(self, name):
        self.raw(json.dumps(name))

    def raw(self, text):
        self._prefix()
        self._parts.append(text)

    def value(self, value):
        """Anything that Python's JSON knows, and NumPy's floats as the server writes its own."""
        if isinstance(value, dict):
            self.begin("{")
            for name, each in value.items():
                self.key(name)
                self.value(each)
            self.end("}")
        elif isinstance(value, list):
            self.begin("[")
            for each in value:
                self.value(each)
            self.end("]")
        else:
            self.raw(decimal(value) if isinstance(value, np.floating) else _plain(value))

    def _prefix(self):
        if not self._open:
            return
        level = self._open[-1]
        bracket, values = level
        level[1] += 1
        if bracket == "[":
            self._parts.append("," * bool(values))
            self._parts.append(" " * bool(values)) if self.single_line else self._new_line()
        elif values % 2:
            self._parts.append(": ")
        else:
            self._parts.append("," * bool(values))
            self._new_line()

    def _new_line(self):
        self._parts.append("\n" + "    " * len(self._open))


def pretty(value):
    """A whole text."""
    writer = PrettyWriter()
    writer.value(value)
    return writer.text()


def decimal(value):
    """A 32-bit float: six digits if they are enough, and never like an integer."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "-Infinity" if value < 0 else "Infinity"
    text = f"{value:.6g}"
    if np.float32(text) != value:
        text = f"{value:.9g}"
    return text if "." in text or "e" in text else f"{text}.0"


def _plain(value):
    return decimal(np.float32(value)) if isinstance(value, float) else json.dumps(value)
