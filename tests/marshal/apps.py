"""Services whose handlers worker processes can import."""

import os
import signal
import time

from adaptive_batching.errors import QueueFull
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.pipeline import Pipeline, Stage

service = Service("tests")


@service.endpoint("/square", max_batch_size=8)
class Square:
    def __call__(self, numbers):
        return [number * number for number in numbers]


@service.endpoint("/slow", max_batch_size=8)
class Slow:
    """Takes 20 ms a batch and says which process it was."""

    def __call__(self, items):
        time.sleep(0.02)
        return [os.getpid()] * len(items)


corked = Service("corked")


@corked.endpoint("/corked", policy="window:1h", workers=1)
def patient(items):
    """Would wait an hour for its batch to fill."""
    return [len(items)] * len(items)


@corked.endpoint("/slow")
class AlsoSlow(Slow):
    pass


class Faulty:
    """Does what the item says."""

    def __call__(self, items):
        if "raise" in items:
            raise ValueError("secret detail")
        if "short" in items:
            return []
        if "die" in items:
            os.kill(os.getpid(), signal.SIGKILL)
        return [self.answer(item) for item in items]

    def answer(self, item):
        answers = {
            "error": KeyError("secret detail"),
            "full": QueueFull("somewhere behind", retry_after=7.0),
            "nan": float("nan"),
            "object": object(),
        }
        return answers.get(item, item)


unloadable = Service("unloadable")


@unloadable.endpoint("/")
class Unloadable:
    def __init__(self):
        raise RuntimeError("no model")

    def __call__(self, items):
        return items


loading = Service("loading")


@loading.endpoint("/")
class Loading:
    """Takes longer than anybody waits."""

    def __init__(self):
        time.sleep(3600)

    def __call__(self, items):
        return items


class Split:
    """Takes one text."""

    def __call__(self, text):
        if text == "bad":
            raise QueueFull("somewhere behind", retry_after=7.0)
        return text.split()


class Lengths:
    """Takes many lists of words."""

    def __call__(self, lists):
        return [[len(word) for word in words] for words in lists]


async def total(lengths):
    """Takes one list, on the loop; what has no words has no total that JSON could hold."""
    return sum(lengths) if lengths else float("nan")


staged = Service("staged")
staged.add_pipeline(
    "/letters",
    Pipeline([Stage(Split), Stage(Lengths, max_batch_size=8), Stage(total)], max_latency=10.0),
    max_body=1000,
)
staged.add_pipeline("/one", Pipeline([Stage(total)]))
staged.add_pipeline("/twice", Pipeline([Stage(sorted), Stage(sorted)]))

talkative = Service("talkative")


@talkative.endpoint("/")
class Talkative:
    """Says so when it has loaded."""

    def __init__(self):
        print("weights of 2026")  # noqa: T201

    def __call__(self, items):
        return items


empty = Service("empty")
