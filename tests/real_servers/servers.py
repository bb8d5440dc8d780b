"""How each server is installed and started, and what the sidecar must be told of it.

Versions are those that were seen to start on CPU only.
"""

import json
import os
import shutil
import socket
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.real_servers.environments import PYTHON, environment
from tests.real_servers.processes import serving

MODELS = Path(__file__).parent / "models"
TENSORS = {"whole": "INT64", "real": "FP32", "text": "BYTES"}
"""Models of the Open Inference Protocol, and what each doubles."""


@dataclass(frozen=True)
class Server:
    """A model server from a registry.

    Attributes:
        requirements: What is installed.
        prepare: From its environment, a folder for it and a port to the command and variables.
        ready: A path that answers 200 as soon as it serves.
    """

    name: str
    requirements: tuple[str, ...]
    prepare: Callable = field(repr=False)
    ready: str

    @asynccontextmanager
    async def running(self, folder):
        """Its URL while it runs."""
        home = environment(self.name, self.requirements)
        port = _free_port()
        command, variables = self.prepare(home, folder, port)
        url, log = f"http://127.0.0.1:{port}", folder / f"{self.name}.log"
        variables = {"PATH": f"{home / 'bin'}:{os.environ['PATH']}", **variables}
        env = {**os.environ, **variables}
        async with serving(command, url, self.ready, log, cwd=folder, env=env):
            yield url


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _triton(home, folder, port, scheduler="", models=None):
    models = models or {
        name: ("triton_model.py", _triton_config(datatype) + scheduler)
        for name, datatype in TENSORS.items()
    }
    packages = home / "lib" / f"python{PYTHON}" / "site-packages"
    server = packages / "pytriton" / "tritonserver"
    backend = folder / "backends" / "python"
    shutil.copytree(server / "backends" / "python", backend)
    stub = backend / "triton_python_backend_stub"
    shutil.copy(server / "python_backend_stubs" / PYTHON / stub.name, stub)
    stub.chmod(0o755)
    for name, (program, configuration) in models.items():
        version = folder / "models" / name / "1"
        version.mkdir(parents=True)
        shutil.copy(MODELS / program, version / "model.py")
        (version.parent / "config.pbtxt").write_text(configuration)
    command = [
        server / "bin" / "tritonserver",
        f"--model-repository={folder / 'models'}",
        f"--backend-directory={folder / 'backends'}",
        "--http-address=127.0.0.1",
        f"--http-port={port}",
        "--allow-grpc=false",
        "--allow-metrics=false",
    ]
    libraries = packages / "nvidia_pytriton.libs"
    return command, {"PYTHONPATH": str(packages), "LD_LIBRARY_PATH": str(libraries)}


def _triton_config(datatype, max_batch_size=256, dims="-1"):
    """Without `dynamic_batching` what comes together was merged by the sidecar."""
    kind = f"TYPE_{'STRING' if datatype == 'BYTES' else datatype}"
    return (
        f'backend: "python"\nmax_batch_size: {max_batch_size}\n'
        f'input [{{ name: "x" data_type: {kind} dims: [ {dims} ] }}]\n'
        f'output [{{ name: "y" data_type: {kind} dims: [ {dims} ] }}]\n'
        "instance_group [{ count: 1 kind: KIND_CPU }]\n"
    )


def _triton_that_batches(home, folder, port):
    """Its own batcher waits for what the sidecar sends at the same time.

    So long that both batchers have something to merge, however slow the clients are.
    """
    return _triton(home, folder, port, "dynamic_batching { max_queue_delay_microseconds: 8000 }\n")


def _triton_of_kinds(home, folder, port):
    """One model that may be merged, four rows at a time, and one of each kind that may not."""
    few = _triton_config("FP32", 4)
    models = {
        "few": few,
        "track": _triton_config("FP32", 0, "-1, 2"),
        "steps": few + "sequence_batching {}\n",
        "stream": few + "model_transaction_policy { decoupled: true }\n",
    }
    programs = {name: ("triton_kinds.py", each) for name, each in models.items()}
    command, variables = _triton(home, folder, port, models=programs)
    return [*command, "--model-control-mode=explicit", "--load-model=*"], variables


def _mlserver(home, folder, port):
    ports = {"http_port": port, "grpc_port": _free_port(), "metrics_port": _free_port()}
    settings = {"host": "127.0.0.1", **ports, "parallel_workers": 0, "debug": False}
    (folder / "settings.json").write_text(json.dumps(settings))
    for name in TENSORS:
        (folder / name).mkdir()
        model = {"name": name, "implementation": "mlserver_model.Twice"}
        (folder / name / "model-settings.json").write_text(json.dumps(model))
    return [home / "bin" / "mlserver", "start", "."], {"PYTHONPATH": str(MODELS)}


def _bentoml(home, folder, port):
    variables = {
        "BENTOML_HOME": str(folder / "bentoml"),
        "BENTOML_DO_NOT_TRACK": "true",
        "PYTHONPATH": str(MODELS),
    }
    options = ["--host=127.0.0.1", f"--port={port}"]
    return [home / "bin" / "bentoml", "serve", "bentoml_model:Reverse", *options], variables


def _mosec(home, folder, port):
    options = ["--address=127.0.0.1", f"--port={port}", f"--path={folder / 'ipc'}"]
    return [home / "bin" / "python", MODELS / "mosec_model.py", *options], {}


def _program(script):
    def prepare(home, folder, port):
        return [home / "bin" / "python", MODELS / script, port], {}

    return prepare


TRITON = Server("triton", ("nvidia-pytriton==0.7.0", "numpy<2"), _triton, "/v2/models/text/ready")
TRITON_THAT_BATCHES = replace(TRITON, prepare=_triton_that_batches)
TRITON_OF_KINDS = replace(TRITON, prepare=_triton_of_kinds, ready="/v2/health/ready")
KSERVE = Server("kserve", ("kserve==0.21.0",), _program("kserve_model.py"), "/v2/models/text/ready")
MLSERVER = Server("mlserver", ("mlserver==1.7.1",), _mlserver, "/v2/models/text/ready")
LITSERVE = Server("litserve", ("litserve==0.2.19",), _program("litserve_model.py"), "/health")
MOSEC = Server("mosec", ("mosec==0.9.8", "scikit-learn==1.7.2"), _mosec, "/")
BENTOML = Server("bentoml", ("bentoml==1.4.39",), _bentoml, "/readyz")
