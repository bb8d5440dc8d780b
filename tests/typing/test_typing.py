"""The public API as a type checker sees it."""

from pathlib import Path

from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_the_public_api_is_typed() -> None:
    """`list[T] -> list[R]` becomes `T -> R`, one's own policy fits; misuse of both is found."""
    report, errors, status = api.run(
        [
            f"--config-file={ROOT / 'pyproject.toml'}",  # strict
            f"--cache-dir={ROOT / '.mypy_cache'}",  # of a run of mypy before, if there was one
            str(HERE / "api.py"),
            str(HERE / "policies.py"),
        ]
    )
    assert (report, errors, status) == (
        "Success: no issues found in 2 source files\n",
        "",
        0,
    )
