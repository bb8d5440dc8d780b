"""The public API as a type checker sees it."""

from pathlib import Path

from mypy import api

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".mypy_cache" / "api"  # its own, for the project's options are others


def test_the_public_api_is_typed() -> None:
    """`list[T] -> list[R]` becomes `T -> R`, one's own policy fits; misuse of both is found."""
    report, errors, status = api.run(
        [
            "--strict",
            "--warn-unused-ignores",
            f"--cache-dir={CACHE}",
            "--config-file=",
            "--follow-imports=silent",
            str(HERE / "api.py"),
            str(HERE / "policies.py"),
        ]
    )
    assert (report, errors, status) == (
        "Success: no issues found in 2 source files\n",
        "",
        0,
    )
