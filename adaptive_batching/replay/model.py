"""The model that is served in a replay: it sleeps as long as another one would compute."""

import time


class Sleeper:
    """Sleeps `fixed + per_item * n` seconds over a batch; each item names both, and itself."""

    def __call__(self, items: list[tuple[float, float, int]]) -> list[None]:
        """Return nothing, once an item."""
        fixed, per_item, _ = items[0]
        time.sleep(fixed + per_item * len(items))
        return [None] * len(items)
