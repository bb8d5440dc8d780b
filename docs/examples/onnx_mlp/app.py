"""An ONNX model so fast that HTTP is the limit."""

from pathlib import Path

import numpy as np
import onnxruntime

from adaptive_batching import Service

service = Service()


@service.endpoint("/digit", max_latency=0.2, max_batch_size=256, examples=[[0.0] * 64])
class Digits:
    """One session for each worker process, with one thread: processes are the parallelism."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        path = Path(__file__).with_name("digits.onnx")
        self.session = onnxruntime.InferenceSession(path, options)
        self.input = self.session.get_inputs()[0].name

    def __call__(self, images: list[list[float]]) -> list[int]:
        pixels = np.asarray(images, dtype=np.float32) / 16
        labels, _ = self.session.run(None, {self.input: pixels})
        return labels.tolist()
