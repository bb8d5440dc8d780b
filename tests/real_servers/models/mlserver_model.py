"""For MLServer: twice what comes, but -13 and `poison` fail."""

from itertools import chain

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError
from mlserver.types import InferenceResponse, ResponseOutput


class Twice(MLModel):
    async def predict(self, payload):
        (tensor,) = payload.inputs
        output = (self._text if tensor.datatype == "BYTES" else self._number)(tensor)
        return InferenceResponse(id=payload.id, model_name=self.name, outputs=[output])

    def _number(self, tensor):
        x = NumpyCodec.decode_input(tensor)
        if (x == -13).any():
            raise InferenceError("-13 is poison")
        return NumpyCodec.encode_output("y", x + x)

    def _text(self, tensor):
        """Its codec for strings knows no nested lists and no second dimension."""
        texts = tensor.data.root
        if isinstance(texts[0], list):
            texts = list(chain.from_iterable(texts))
        if "poison" in texts:
            raise RuntimeError("poison is poison")
        doubled = [text + text for text in texts]
        return ResponseOutput(name="y", shape=tensor.shape, datatype="BYTES", data=doubled)
