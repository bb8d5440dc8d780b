"""The lock that batches run under, and which thread holds it."""

from threading import TIMEOUT_MAX, Lock, get_ident
from typing import Self

from adaptive_batching.errors import ReentrantCall


class ExecutionLock:
    """Held while a batch runs; share it with other code that must not run at the same time.

    To wait for oneself is a `ReentrantCall`, not a deadlock: a plain lock could not tell.
    """

    __slots__ = ("_lock", "_owner")

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: int | None = None

    def __repr__(self) -> str:
        return f"<ExecutionLock {'held' if self._owner is not None else 'free'}>"

    @property
    def held(self) -> bool:
        """Whether the calling thread holds it."""
        return self._owner == get_ident()  # no other thread ever writes our own number there

    def check(self) -> None:
        """See to it that the calling thread may wait for it.

        Raises:
            ReentrantCall: It holds it.
        """
        if self.held:
            expected = "expected a call from outside the handler and the execution lock"
            raise ReentrantCall(f"{expected}, got one that would wait for itself")

    def acquire(self, timeout: float = TIMEOUT_MAX) -> bool:
        """Wait for it, at most `timeout` seconds; whether it was had.

        Raises:
            ReentrantCall: The calling thread holds it.
        """
        self.check()
        if not self._lock.acquire(timeout=max(0.0, min(timeout, TIMEOUT_MAX))):
            return False
        self._owner = get_ident()
        return True

    def release(self) -> None:
        """Let others have it.

        Raises:
            RuntimeError: The calling thread does not hold it.
        """
        if not self.held:  # else two would run at a time, and neither would know
            raise RuntimeError(f"expected to be released by the thread that holds it, got {self}")
        self._owner = None
        self._lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
