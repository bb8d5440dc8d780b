"""The command line: `adaptive-batching` or `python -m adaptive_batching`."""

from importlib import import_module

from adaptive_batching.interrupts import interrupt_held, interruptible


def main() -> None:
    """Run the command line; Ctrl-C may come while it is still imported."""
    with interruptible():
        with interrupt_held():
            command_line = import_module("adaptive_batching.cli")
        command_line.main()


if __name__ == "__main__":
    main()
