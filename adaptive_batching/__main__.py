"""The command line: `adaptive-batching` or `python -m adaptive_batching`."""

from adaptive_batching.cli import main

if __name__ == "__main__":
    main()
