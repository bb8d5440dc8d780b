"""For Triton's Python backend: twice what comes, but -13 and `poison` fail."""

import triton_python_backend_utils as triton


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        x = triton.get_input_tensor_by_name(request, "x").as_numpy()
        if (x == -13).any():
            error = triton.TritonError("-13 is poison", triton.TritonError.INVALID_ARG)
            return triton.InferenceResponse(error=error)
        if (x == b"poison").any():  # raised, it would harm whoever Triton's own batcher put with it
            return triton.InferenceResponse(error=triton.TritonError("poison is poison"))
        doubled = triton.Tensor("y", x + x)
        return triton.InferenceResponse([doubled])
