"""Handlers that worker processes import."""

import contextlib
import os
import socket
import sys
import threading
import time

AT_IMPORT = {
    "cpus": sorted(os.sched_getaffinity(0)),
    "threads": os.environ.get("OMP_NUM_THREADS"),
}


def double(items):
    return [2 * item for item in items]


def identity(items):
    return items


async def double_async(items):
    return [2 * item for item in items]


def yields(items):
    """Return a generator instead of results."""
    yield from items


class Uncallable:
    """A class whose instances can't be called."""


def where(items):
    """Return the process and the cores that it was on when this module was loaded."""
    return [(os.getpid(), AT_IMPORT)] * len(items)


def cores(items):
    """Return the cores that this process may run on."""
    return [sorted(os.sched_getaffinity(0))] * len(items)


def thread_pools(items):
    """Return how many threads the libraries behind NumPy and scikit-learn use here."""
    import sklearn.cluster  # noqa: F401  it loads OpenMP
    import threadpoolctl

    pools = {each["user_api"]: each["num_threads"] for each in threadpoolctl.threadpool_info()}
    return [pools] * len(items)


def doubled_items(call):
    """Wrap a handler so that its items come twice as large."""
    return lambda items: call([2 * item for item in items])


class Cannot(Exception):
    """Can be pickled, but not unpickled: its constructor wants two arguments."""

    def __init__(self, left, right):
        super().__init__(f"{left} and {right}")


class Obeys:
    """Does to its process what the first item says."""

    def __init__(self):
        self.built_in = os.getpid()

    def __call__(self, items):
        order = items[0]
        return getattr(self, order)(items)

    def echo(self, items):
        return items

    def process(self, items):
        return [os.getpid()] * len(items)

    def hang(self, items):
        time.sleep(3600)

    def hang_loudly(self, items):
        """Tell the program's reader which process is busy now."""
        sys.stdout.write(f"{os.getpid()}\n")
        sys.stdout.flush()
        time.sleep(3600)

    def exit(self, items):
        sys.exit(3)

    def exit_hard(self, items):
        os._exit(3)

    def interrupt(self, items):
        raise KeyboardInterrupt

    def stop_iteration(self, items):
        return [next(iter([]))]

    def out_of_memory(self, items):
        raise MemoryError

    def value_error(self, items):
        raise ValueError("no such thing", 7)

    def unpicklable_error(self, items):
        raise ValueError(threading.Lock())

    def half_picklable_error(self, items):
        raise Cannot("this", "that")

    def unpicklable_result(self, items):
        return [threading.Lock() if item == "lock" else item for item in items]

    def errors_in_place(self, items):
        return [items[0], KeyError("second"), Cannot("a", "b"), SystemExit(1)][: len(items)]

    def none(self, items):
        return None

    def text(self, items):
        return "x" * len(items)

    def mapping(self, items):
        return dict.fromkeys(items)

    def generator(self, items):
        return (item for item in items)

    def too_short(self, items):
        return items[1:]

    def array(self, items):
        import numpy as np  # as long as all else that most workers import

        return np.arange(3.0 * len(items)).reshape(len(items), 3)


class Waits:
    """Waits until the file that the first item names is there, and says who waited."""

    def __call__(self, items):
        while items[0] and not os.path.exists(items[0]):
            time.sleep(0.001)
        return [os.getpid()] * len(items)


class Leaks:
    """Keeps as many bytes as its first item says, for ever, and says who it is."""

    def __init__(self):
        self.kept = []

    def __call__(self, items):
        self.kept.append(b"x" * items[0])
        time.sleep(0.05)
        return [os.getpid()] * len(items)


class Counted:
    """Returns its items, as functions do that are decorated where they stand."""

    def __call__(self, items):
        return items


class NodeOf:
    """Says on which node of a cluster it runs."""

    def __call__(self, items):
        import ray

        return [ray.get_runtime_context().get_node_id()] * len(items)


class CountsBatches:
    """Answers how many batches there have been."""

    def __init__(self):
        self.batches = 0

    def __call__(self, items):
        self.batches += 1
        return [self.batches] * len(items)


class TellsSizes:
    """Returns the sizes of the batches that it ran before."""

    def __init__(self):
        self.ran = set()

    def __call__(self, items):
        before = sorted(self.ran)
        self.ran.add(len(items))
        return [before] * len(items)


class SecondIsSlow:
    """Takes four times as long in all processes of a pool but the first, which takes a name."""

    def __init__(self):
        self.named = socket.socket(socket.AF_UNIX)  # as long as this process lives
        try:
            self.named.bind(f"\0second-is-slow-{os.getppid()}")
        except OSError:
            self.pause = 0.04
        else:
            self.pause = 0.01

    def __call__(self, items):
        time.sleep(self.pause)
        return items


class Warmed:
    """Answers whether its warm-up ran, and whether it ran on a loop that is still the same."""

    def __init__(self):
        self.warm = False

    async def warmup(self):
        self.warm = True

    async def __call__(self, items):
        return [self.warm] * len(items)


class WarmedInThread:
    """Answers in which thread it was built and warmed up, and in which it runs."""

    def __init__(self):
        self.built = threading.get_ident()

    def warmup(self):
        self.warmed = threading.get_ident()

    def __call__(self, items):
        return [(self.built, self.warmed, threading.get_ident())] * len(items)


class Broken:
    def __init__(self):
        raise RuntimeError("the weights are missing")


class DiesEarly:
    def __init__(self):
        os._exit(4)


class NeverReady:
    def __init__(self):
        time.sleep(3600)


class Replaced:
    """What a decorator puts in the place of a class."""

    def __init__(self, wrapped):
        self.__wrapped__ = wrapped


@Replaced
class Decorated:
    def __call__(self, items):
        return [-item for item in items]


def dead(pid):
    """Whether a process is gone, or only waits for somebody to ask how it ended."""
    gone = (FileNotFoundError, ProcessLookupError)  # before it is opened, or before it is read
    with contextlib.suppress(*gone), open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "Z"
    return True


class Sensitive:
    """Spells numbers: each step refuses what the item says, and the batch call counts."""

    def preprocess(self, item):
        if item == "not a number":
            raise ValueError(item)
        return int(item)

    def __call__(self, numbers):
        if 0 in numbers:
            raise ZeroDivisionError
        return [(number, len(numbers)) for number in numbers]

    def postprocess(self, result):
        number, company = result
        if number < 0:
            raise OverflowError(number)
        return f"{number} of {company}"


class SensitiveLater(Sensitive):
    """The same, with all of it awaited."""

    async def preprocess(self, item):
        return super().preprocess(item)

    async def __call__(self, numbers):
        return super().__call__(numbers)

    async def postprocess(self, result):
        return super().postprocess(result)


def brisk(items):
    time.sleep(0.002)
    return [("brisk", item) for item in items]


def steady(items):
    time.sleep(0.006)
    return [("steady", item) for item in items]


def sluggish(items):
    time.sleep(0.02)
    return [("sluggish", item) for item in items]


class Keeps:
    """Keeps all items, and says what it has kept when asked for all."""

    def __init__(self):
        self.kept = []

    def __call__(self, items):
        if isinstance(items[0], str):
            return [[int(array.max()) for array in self.kept]]
        self.kept += items
        return [item.copy() for item in items]


class Lies:
    """Answers in its worker's name, with the frame that it gets."""

    def __call__(self, items):
        os.write(int(sys.argv[1]), items[0])
        time.sleep(3600)


class Drains:
    """Takes its items out of the list; those that are no numbers fail in a step before."""

    def preprocess(self, text: str) -> int:
        return int(text)

    def __call__(self, numbers: list[int]) -> list[int]:
        return [2 * numbers.pop(0) for _ in range(len(numbers))]


class Fills(Drains):
    """Adds an item to the list, and returns its result as well."""

    def __call__(self, numbers: list[int]) -> list[int]:
        numbers.append(numbers[-1])
        return [2 * number for number in numbers]


class DrainsLater(Drains):
    """The same, awaited."""

    async def __call__(self, numbers: list[int]) -> list[int]:
        return super().__call__(numbers)


class FillsLater(Fills):
    """The same, awaited."""

    async def __call__(self, numbers: list[int]) -> list[int]:
        return super().__call__(numbers)
