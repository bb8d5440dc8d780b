"""One thread's wait, which another thread ends."""

from threading import TIMEOUT_MAX, Lock


class Waiter:
    """A thread that waits: for its answer, for its turn to lead, or for others to come."""

    __slots__ = ("_bell", "leads", "silent")

    def __init__(self) -> None:
        self._bell = Lock()
        self._bell.acquire()
        self.leads = False
        """Whether it is to run batches for all."""
        self.silent = True
        """Whether nothing has happened that it need know of; changes under the driver's mutex."""

    def ring(self) -> bool:
        """Wake it; False if that was done before."""
        if not self.silent:
            return False
        self.silent = False
        self._bell.release()
        return True

    def wait(self, seconds: float) -> None:
        """Return when rung, or after so many seconds."""
        self._bell.acquire(timeout=max(0.0, min(seconds, TIMEOUT_MAX)))
