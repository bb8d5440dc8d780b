"""What `serve --reload` starts: `python -m adaptive_batching.cli.reloaded PARENT serve ...`."""

import os
import signal
import sys
import threading
import time

from adaptive_batching.cli import main

_LOOK_AGAIN = 0.5  # seconds


def _end_with(parent: int) -> None:
    """End this process as SIGTERM does once its parent is gone, which may not have ended it."""
    while os.getppid() == parent:
        time.sleep(_LOOK_AGAIN)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(int(sys.argv.pop(1)),), daemon=True).start()
    main(prog_name="python -m adaptive_batching")
