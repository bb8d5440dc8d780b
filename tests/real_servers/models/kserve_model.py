"""For KServe's Python server, V1 and V2: twice what comes, but -13 and `poison` fail."""

import sys

from kserve import InferOutput, InferResponse, Model, ModelServer
from kserve.errors import InvalidInput
from kserve.utils.utils import generate_uuid


class Twice(Model):
    def __init__(self, name):
        super().__init__(name)
        self.ready = True

    def predict(self, payload, headers=None, response_headers=None):
        if isinstance(payload, dict):
            instances = payload["instances"]
            self._check(-13 in instances, "poison" in instances)
            return {"predictions": [each + each for each in instances]}
        (tensor,) = payload.inputs
        x = tensor.as_numpy()
        self._check((x == -13).any(), (x == "poison").any() or (x == b"poison").any())
        output = InferOutput("y", list(x.shape), tensor.datatype)
        output.set_data_from_numpy(x + x, binary_data=payload.use_binary_outputs)
        return InferResponse(payload.id or generate_uuid(), self.name, [output])

    def _check(self, wrong, broken):
        if wrong:
            raise InvalidInput("-13 is poison")
        if broken:
            raise RuntimeError("poison is poison")


if __name__ == "__main__":
    models = [Twice(name) for name in ("whole", "real", "text")]
    ModelServer(http_port=int(sys.argv[1]), enable_grpc=False, workers=1).start(models)
