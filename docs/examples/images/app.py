"""Three stages: decode a PNG, sharpen many at once, encode them again."""

import base64
import io

import numpy as np
from PIL import Image

from adaptive_batching import Pipeline, Service, Stage

SIDE = 64  # pixels; a model wants its inputs alike


class Decode:
    """One image: base64 of any format that Pillow reads, to SIDE x SIDE grey values."""

    def __call__(self, encoded: str) -> np.ndarray:
        image = Image.open(io.BytesIO(base64.b64decode(encoded, validate=True)))
        return np.asarray(image.convert("L").resize((SIDE, SIDE)), np.float32)


class Sharpen:
    """Many images: the stage that gains by batching."""

    def __call__(self, images: list[np.ndarray]) -> list[np.ndarray]:
        stack = np.pad(np.stack(images), ((0, 0), (1, 1), (1, 1)), mode="edge")
        centre = stack[:, 1:-1, 1:-1]
        around = stack[:, :-2, 1:-1] + stack[:, 2:, 1:-1] + stack[:, 1:-1, :-2] + stack[:, 1:-1, 2:]
        return list(np.clip(5 * centre - around, 0, 255).astype(np.uint8))


class Encode:
    """One image: back to PNG, in base64."""

    def __call__(self, pixels: np.ndarray) -> str:
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "PNG")
        return base64.b64encode(out.getvalue()).decode()


service = Service()
stages = [
    Stage(Decode, workers=2),
    Stage(Sharpen, workers=1, max_batch_size=32),
    Stage(Encode, workers=1),
]
service.add_pipeline("/sharpen", Pipeline(stages, max_latency=1.0))
