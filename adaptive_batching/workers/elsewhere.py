"""Where a handler runs if that is outside this process, in the words of the public API."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar

from adaptive_batching.keywords import names_keywords
from adaptive_batching.units import Duration, is_number, is_whole_number, seconds_of
from adaptive_batching.wire.frames import MAX_CHATTER, MAX_FRAME, MAX_LENGTH
from adaptive_batching.workers.external.socket_path import check_path
from adaptive_batching.workers.placement import Placement, check_count

# seconds; proxies in front give up after a minute by default, so no one is left for a later answer
_TIMEOUT = 60.0
_LEAST_RSS = 2**24  # bytes; no worker holds less; to ask for it means another unit was meant
_START_TIMEOUT = 60.0  # seconds; loading a few GB of weights from a disk
_MAX_RESULT_BYTES = 2**28  # 64 images of 4 MiB; more in one piece is a mistake, or wants streaming
_LEAST_RESULT_BYTES = 2**16  # an error with its traceback must always fit
_DEVICE_VARIABLE = "CUDA_VISIBLE_DEVICES"  # CUDA reads it, and so does ROCm
_SHARED_MEMORY = 2**28  # bytes; 64 images of 600 KiB each way three times over


@names_keywords
@dataclass(frozen=True, slots=True)
class Processes(Placement):
    """In processes of their own, that may crash or hang without harm to this one.

    Attributes:
        count: Processes, each of which runs one batch at a time; by default as many as `cpus`,
            `env` or `devices` are for, or else one.
        cpus: One core or several for each process; None leaves them on all.
        timeout: Seconds, or a text such as `60s`, that a batch may take before its
            process is killed and replaced.
        start_timeout: Seconds that a process may take to load its handler and warm it up.
        max_batches: Batches after which a process makes way for a fresh one, or up to a tenth
            fewer, so that not all do it at once; None for never. No request is lost by it.
        max_rss: Bytes of memory (resident set size) beyond which it does, likewise.
        max_result_bytes: What the results of one batch may take together; a batch with more fails.
        shared_memory: Most bytes of each process in which large arrays cross, half of it each way;
            memory is taken as it is used, what finds no room goes over the socket. 0 for none.
        env: Variables of the environment for each process, beside this program's own; they are set
            before the process starts.
        devices: The GPU of each process, which sees no other: its number among those that this
            program sees, or its name. `[0, 0, 1, 1]` is four processes, two on each of two GPUs.
    """

    count: int = None  # type: ignore[assignment]  # it is known once the others are
    cpus: Sequence[int | Sequence[int]] | None = None
    timeout: Duration = _TIMEOUT
    start_timeout: Duration = _START_TIMEOUT
    max_batches: int | None = None
    max_rss: int | None = None
    max_result_bytes: int = _MAX_RESULT_BYTES
    shared_memory: int = _SHARED_MEMORY
    env: Sequence[Mapping[str, str]] | None = None
    devices: Sequence[int | str] | None = None

    def __post_init__(self) -> None:
        _check_each("env", "a dict of texts", self.env, _are_variables)
        _check_each("devices", "the number or the name of a GPU", self.devices, _is_device)
        _check_each("cpus", "the number of a core, or a list of them", self.cpus, _are_cores)
        if self.count is None:
            object.__setattr__(self, "count", self.most or 1)
        check_count(self.count)
        _check_at_least("shared_memory", 0, self.shared_memory, "bytes")
        _check_positive("timeout", self.timeout)
        _check_positive("start_timeout", self.start_timeout)
        _check_at_least("max_batches", 1, self.max_batches)
        _check_at_least("max_rss", _LEAST_RSS, self.max_rss, "bytes")
        if not _LEAST_RESULT_BYTES <= self.max_result_bytes <= MAX_LENGTH:
            msg = f"expected max_result_bytes from {_LEAST_RESULT_BYTES} to {MAX_LENGTH}"
            raise ValueError(f"{msg}, got {self.max_result_bytes!r}")
        for name in ("cpus", "env", "devices"):
            own = getattr(self, name)
            if own is not None and len(own) != self.count:
                msg = f"expected {name} for {self.count} processes, got {name} for {len(own)}"
                raise ValueError(f"{msg}: give one for each process")
        if self.devices and any(_DEVICE_VARIABLE in each for each in self.env or ()):
            msg = f"expected devices, or {_DEVICE_VARIABLE} in env, got both: leave one out"
            raise ValueError(msg)
        if not all(self.cpu_groups() or [True]):
            msg = f"expected at least one cpu for each process, got {self.cpus}"
            raise ValueError(msg)

    def cpu_groups(self) -> list[tuple[int, ...]] | None:
        """The cores of each process."""
        if self.cpus is None:
            return None
        return [(cpus,) if isinstance(cpus, int) else tuple(cpus) for cpus in self.cpus]

    @property
    def most(self) -> int | None:
        """How many were given something of their own; None if there can be any number."""
        own = (self.cpus, self.env, self.devices)
        return next((len(each) for each in own if each is not None), None)

    def environment(self, number: int) -> dict[str, str]:
        """The variables of one process, beside those of this program, and that of its device.

        Raises:
            ValueError: This program sees no such GPU.
        """
        own = dict(self.env[number]) if self.env else {}
        if self.devices:
            own[_DEVICE_VARIABLE] = _name_of_gpu(self.devices[number])
        return own


@names_keywords
@dataclass(frozen=True, slots=True)
class RayWorkers(Placement):
    """In actors of a Ray cluster, on as many machines as it has (extra: ray).

    Attributes:
        count: Actors, each of which runs one batch at a time.
        num_cpus: Cores that Ray sets aside for each; a share of one is allowed.
        num_gpus: GPUs that Ray sets aside for each; a share of one is allowed.
        resources: Amounts of the cluster's own kinds of resources for each, by name.
        runtime_env: What Ray prepares on a machine before the actor starts there: packages, files.
        address: The cluster to join, if the program has not called `ray.init`; None for what
            `RAY_ADDRESS` names, or else one on this machine alone.
        timeout: Seconds, or a text such as `60s`, that a batch may take before its
            actor is killed and replaced.
        start_timeout: Seconds until an actor must have been placed, and have loaded its handler.
    """

    count: int = 1
    num_cpus: float = 1
    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    address: str | None = None
    timeout: Duration = _TIMEOUT
    start_timeout: Duration = _START_TIMEOUT

    def __post_init__(self) -> None:
        check_count(self.count)
        for name in ("num_cpus", "num_gpus"):
            amount = getattr(self, name)
            if not (is_number(amount) and 0 <= amount < inf):
                raise ValueError(f"{name}: expected 0 or more, got {amount!r}")
        _check_positive("timeout", self.timeout)
        _check_positive("start_timeout", self.start_timeout)

    def options(self) -> dict[str, Any]:
        """What Ray is asked for, in its own words."""
        asked = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus}
        more = {"resources": dict(self.resources), "runtime_env": dict(self.runtime_env)}
        return asked | {name: value for name, value in more.items() if value}


@names_keywords
@dataclass(frozen=True, slots=True)
class ExternalWorkers(Placement):
    """In workers that are started apart: they connect to a Unix socket and pull batches.

    `workers="unix:/run/model.sock"` is short for `ExternalWorkers("/run/model.sock")`. Items and
    results are values of MessagePack. The decorated handler only says what items and results are:
    the workers, in any language, have the code that runs.

    Attributes:
        path: The socket, which is created, private to this user, and removed at the end.
        timeout: Seconds, or a text such as `60s`, that a batch may take before its
            worker is hung up on.
        max_workers: Workers at a time; more are turned away.
        max_frame: Bytes that a batch may have on the wire, and its results. A longer batch is sent
            in parts; a worker with longer results is hung up on.
        uids: Other users whose workers may connect; this one's and root's always may.
    """

    builds_handlers: ClassVar[bool] = False

    path: str
    timeout: Duration = _TIMEOUT
    max_workers: int = 64
    max_frame: int = MAX_FRAME
    uids: Collection[int] = ()

    def __post_init__(self) -> None:
        check_path(self.path)
        _check_positive("timeout", self.timeout)
        check_count(self.max_workers, "max_workers: ")
        _check_at_least("max_frame", MAX_CHATTER, self.max_frame, "bytes")
        if not all(map(is_whole_number, self.uids)):
            expected = "expected numbers of users, such as os.getuid() returns"
            raise TypeError(f"uids: {expected}, got {self.uids!r}")


def _check_each(name: str, expected: str, each: object, fits: Callable[[Any], bool]) -> None:
    """See whether something is None, or a list with one value of a kind for each process."""
    if each is None:
        return
    if isinstance(each, str | bytes) or not isinstance(each, Sequence):
        raise TypeError(f"{name}: expected {expected} for each process, in a list, got {each!r}")
    odd = [one for one in each if not fits(one)]
    if odd:
        raise TypeError(f"{name}: expected {expected} for each process, got {odd[0]!r}")


def _are_variables(env: object) -> bool:
    texts = [each for pair in env.items() for each in pair] if isinstance(env, Mapping) else [None]
    return all(isinstance(each, str) for each in texts)


def _is_device(device: object) -> bool:
    return isinstance(device, str) or (is_whole_number(device) and device >= 0)


def _name_of_gpu(device: int | str) -> str:
    """The name of a GPU for a process of its own, of which our numbers may not be the machine's.

    Raises:
        ValueError: This program sees no such GPU.
    """
    seen = os.environ.get(_DEVICE_VARIABLE)
    if isinstance(device, str) or seen is None:
        return str(device)
    names = [each for each in seen.split(",") if each]
    if device >= len(names):
        msg = f"devices: expected numbers below {len(names)}, for this program sees"
        raise ValueError(f"{msg} {_DEVICE_VARIABLE}={seen!r}, got {device}")
    return names[device]


def _are_cores(cpus: object) -> bool:
    if isinstance(cpus, Sequence) and not isinstance(cpus, str | bytes):
        return all(map(is_whole_number, cpus))
    return is_whole_number(cpus)


def _check_positive(name: str, duration: Duration) -> None:
    seconds = seconds_of(name, duration)
    if not (is_number(seconds) and seconds > 0):
        msg = f'{name}: expected more than 0 s, such as 60 or "60s", got {duration!r}'
        raise ValueError(msg)


def _check_at_least(name: str, least: int, value: object, unit: str = "") -> None:
    if value is not None and not (is_whole_number(value) and value >= least):
        raise ValueError(f"{name}: expected at least {least} {unit}".rstrip() + f", got {value!r}")
