"""A random forest that reads handwritten digits, in two worker processes."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from adaptive_batching import Service

service = Service()


@service.endpoint(
    "/digit",
    max_latency=0.5,
    max_batch_size=64,
    workers=2,
    examples=[[0.0] * 64],
)
class Digits:
    """Built once in each process; called with what waits."""

    def __init__(self) -> None:
        images, labels = load_digits(return_X_y=True)
        self.forest = RandomForestClassifier(200, random_state=0).fit(images, labels)

    def preprocess(self, image: list[float]) -> np.ndarray:
        """One image of 8 x 8 brightnesses; what is wrong with it is told its sender alone."""
        pixels = np.asarray(image, dtype=float)
        if pixels.shape != (64,):
            raise ValueError(f"image: expected 64 numbers, got shape {pixels.shape}")
        return pixels

    def __call__(self, images: list[np.ndarray]) -> list[int]:
        return self.forest.predict(np.stack(images)).tolist()
