"""The public API as a type checker sees it."""

from pathlib import Path

from mypy import api

HERE = Path(__file__).parent


def test_a_handler_of_lists_becomes_a_function_of_one_item() -> None:
    """`list[T] -> list[R]` becomes `T -> R` for functions, methods and classes; misuse is found."""
    report, errors, status = api.run(
        [
            "--strict",
            "--warn-unused-ignores",
            "--no-incremental",
            "--config-file=",
            "--follow-imports=silent",
            str(HERE / "api.py"),
        ]
    )
    assert (report, errors, status) == (
        "Success: no issues found in 1 source file\n",
        "",
        0,
    )
