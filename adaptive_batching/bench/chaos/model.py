"""What the tormented workers compute, in answers that anybody can check."""

import time

FIXED = 20e-3  # seconds
PER_ITEM = 1e-3  # seconds
MAX_BATCH_SIZE = 16
CAPACITY = MAX_BATCH_SIZE / (FIXED + PER_ITEM * MAX_BATCH_SIZE)
"""Requests a second of one worker with full batches."""


def right_answer(number: int) -> int:
    """What belongs to this number and to no other."""
    return 3 * number + 1


class Device:
    """Takes its time as a device does that computes elsewhere: it leaves the cores alone."""

    def __call__(self, numbers: list[int]) -> list[int]:
        """Answer each number."""
        time.sleep(FIXED + PER_ITEM * len(numbers))
        return [right_answer(number) for number in numbers]
