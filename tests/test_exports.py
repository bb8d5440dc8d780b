"""What the package gives to the outside."""

import importlib
import subprocess
import sys

import pytest

import adaptive_batching


def test_the_public_names_are_listed() -> None:
    """`__all__` is the sorted list of the public names: nothing slips in or out unnoticed."""
    modules = {name for name in sys.modules if name.startswith("adaptive_batching.")}
    submodules = {name.split(".")[1] for name in modules}
    public = {name for name in dir(adaptive_batching) if not name.startswith("_")}
    public -= submodules - set(adaptive_batching.__all__)
    public -= {"TYPE_CHECKING", "Any", "import_module"}
    assert adaptive_batching.__all__ == sorted(public)


@pytest.mark.parametrize("name", adaptive_batching.__all__)
def test_each_public_name_is_there_and_documented(name: str) -> None:
    """All can be imported and say what they are for."""
    assert getattr(adaptive_batching, name).__doc__


def test_an_unknown_name() -> None:
    """It is an AttributeError that names it, and an ImportError in an import."""
    with pytest.raises(AttributeError, match="no attribute 'Batcher'"):
        _ = adaptive_batching.Batcher
    with pytest.raises(ImportError):
        importlib.import_module("adaptive_batching.batcher")


def test_simulate_starts_without_statistics():
    """What `simulate` does not need takes longer to import than most runs last."""
    code = (
        "import sys, adaptive_batching.cli.commands.simulate;"
        "print({'scipy.stats', 'scipy.optimize'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("cli.commands.serve", {"numpy", "rich", "scipy"}),
        ("cli.commands.sidecar", {"adaptive_batching.simulation", "rich", "scipy"}),
        ("batching", {"aiohttp", "msgspec", "multiprocessing", "numpy", "psutil", "scipy"}),
        ("batching", {"pickle", "runpy", "statistics", "uuid"}),  # of workers, fits and items
        (
            "batching",
            {f"adaptive_batching.workers.{it}" for it in ("elsewhere", "handler.multi_handler")},
        ),
        ("workers.child", {"adaptive_batching.core", "msgspec", "numpy", "psutil"}),
        ("marshal.service.service", {"aiohttp", "numpy", "rich", "scipy"}),  # so do workers
    ],
)
def test_a_server_brings_nothing_along_that_it_has_no_use_for(
    module: str, without: set[str]
) -> None:
    """With all of it, it would start half a second later with 40 MiB more."""
    code = f"import sys, adaptive_batching.{module}; print({without} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"
