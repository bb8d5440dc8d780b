"""A Ray cluster of two nodes on this machine, and pools of actors for the tests.

Ray looks up the machine's address in the network and tells everything to it, so that these tests
run where there is loopback only; docs/how-to/serve/ray.md has the command.
"""

import os
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adaptive_batching.workers.elsewhere import RayWorkers
from adaptive_batching.workers.factory import make_workers

# Read when Ray is imported: under `uv run` it would have uv make an environment for the actors, of
# packages from afar.
os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
ray = pytest.importorskip("ray", reason="Ray is not installed: uv sync --group ray")

ROOT = Path(__file__).parents[2]
MEMORY = 100 * 2**20  # bytes of Ray's object store; it would take a third of the machine


def pytest_collection_modifyitems(items):
    """Whatever needs the cluster is marked, and skipped where Ray would talk to a network."""
    outside = pytest.mark.skip(reason="not in a network of its own: see docs/how-to/serve/ray.md")
    networks = {name for _, name in socket.if_nameindex()}
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ray)
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            if networks != {"lo"}:
                item.add_marker(outside)


@pytest.fixture(scope="session")
def cluster():
    """Two nodes with a core each; actors find this project's modules."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["PYTHONPATH"] = str(ROOT)
    node = {"num_cpus": 1, "object_store_memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
async def started(cluster):
    """Start a pool for a handler, with the arguments of `RayWorkers`, and close it afterwards."""
    async with AsyncExitStack() as stack:

        async def start(handler, wrap=None, on_change=lambda: None, **arguments):
            placement = RayWorkers(**{"num_cpus": 0} | arguments)
            pool = make_workers(handler, placement, wrap)
            stack.push_async_callback(pool.aclose)
            await pool.start(on_change)
            return pool

        yield start
