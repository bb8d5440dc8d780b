"""A network of PyTorch: on every GPU that there is, on the CPU if there is none."""

from pathlib import Path
from typing import Annotated, TypedDict

import numpy as np
import torch
from network import Network
from numpy.typing import NDArray

from adaptive_batching import DType, Processes, Service, Shape

GPUS = torch.cuda.device_count()
WEIGHTS = Path(__file__).with_name("digits.pt")

service = Service()


class Reading(TypedDict):
    digit: NDArray[np.int64]
    sure: NDArray[np.float32]


@service.endpoint(
    "/digit",
    codec=["json", "npy"],
    result_codec="json",
    max_latency=0.2,
    max_batch_size=256,
    workers=Processes(devices=list(range(GPUS))) if GPUS else Processes(1),
    init_args={"weights": str(WEIGHTS)},
    examples=[np.zeros(64, np.float32)],
)
class Digits:
    """One process for each GPU, which is the only one that the process sees."""

    def __init__(self, weights: str) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.network = Network()
        self.network.load_state_dict(torch.load(weights, weights_only=True))
        self.network.to(self.device).eval()

    @torch.inference_mode()
    def __call__(self, images: Annotated[torch.Tensor, Shape(64), DType("float32")]) -> Reading:
        scores = self.network(images.to(self.device, non_blocking=True)).softmax(dim=1)
        sure, digit = scores.max(dim=1)
        return {"digit": digit, "sure": sure}
