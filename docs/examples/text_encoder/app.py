"""Vectors of texts, from a transformer that pads the texts of a batch to the longest of them."""

import os
from pathlib import Path
from zlib import crc32

import numpy as np
import onnxruntime

from adaptive_batching import Service

service = Service()


def tokens(text: str) -> list[int]:
    """A number for each word; a real model would bring its own tokenizer."""
    return [crc32(word.encode()) % 8_192 for word in text.split()] or [0]


def number_of_tokens(text: str) -> int:
    """What a text costs: a batch takes as long as its texts times the longest of them."""
    return len(text.split()) or 1


by_length = {} if os.environ.get("ALIKE") else {"cost": number_of_tokens, "padded": True}


@service.endpoint(
    "/embed",
    max_latency=0.5,
    max_batch_size=32,
    examples=["a short one", "and one that is longer " * 20],
    **by_length,
)
class Encoder:
    """One session with one thread in each worker process: processes are the parallelism."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        path = Path(__file__).with_name("encoder.onnx")
        self.session = onnxruntime.InferenceSession(path, options)

    def __call__(self, texts: list[str]) -> list[list[float]]:
        ids = [tokens(text) for text in texts]
        padded = np.zeros((len(ids), max(map(len, ids))), np.int64)
        mask = np.zeros_like(padded)
        for row, each in enumerate(ids):
            padded[row, : len(each)], mask[row, : len(each)] = each, 1
        (vectors,) = self.session.run(None, {"ids": padded, "mask": mask})
        return vectors.tolist()
