"""For Triton's Python backend: models that may be merged, and such that may not, by their names."""

import numpy as np
import triton_python_backend_utils as triton

_START = 1  # of the flags of a request in a sequence


class TritonPythonModel:
    def initialize(self, args):
        self._answer = {
            "track": lambda request, x: np.cumsum(x, axis=0),
            "steps": self._step,
            "stream": lambda request, x: x + x,
            "few": lambda request, x: x + x,
        }[args["model_name"]]
        self._decoupled = args["model_name"] == "stream"
        self._sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            x = triton.get_input_tensor_by_name(request, "x").as_numpy()
            y = triton.Tensor("y", self._answer(request, x))
            responses.append(triton.InferenceResponse([y]))
        if not self._decoupled:
            return responses
        for request, response in zip(requests, responses, strict=True):
            request.get_response_sender().send(
                response, flags=triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL
            )
        return None

    def _step(self, request, x):
        """The sum over a sequence so far; of none, where Triton fills a place up."""
        sequence = request.correlation_id()
        before = 0 if request.flags() & _START else self._sums.get(sequence, 0)
        self._sums[sequence] = before + x
        return self._sums[sequence]
