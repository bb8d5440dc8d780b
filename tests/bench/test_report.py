"""What benchmarks say of their figures."""

import json

import pytest
from rich.console import Console

from adaptive_batching.bench.harness.contest import take_turns
from adaptive_batching.bench.harness.report import Report, Verdict, ratio


@pytest.mark.parametrize(
    ("measured", "bound", "met"),
    [
        (2.0, "at most", True),
        (2.01, "at most", False),
        (2.0, "at least", True),
        (1.99, "at least", False),
    ],
)
def test_a_verdict_says_the_requirement_and_whether_it_was_met(measured, bound, met):
    verdict = Verdict("64 callers", measured, bound, 2.0, "times bare")
    assert verdict.met is met
    assert str(verdict).startswith("met: " if met else "NOT MET: ")
    assert f"required {bound} 2 times bare" in str(verdict)


def test_neighbours_in_time_are_compared():
    """The machine was three times slower in the last two rounds: the ratio doesn't show it."""
    assert ratio([2.0, 6.0, 6.0], [1.0, 3.0, 3.0]) == 2.0


async def test_contestants_take_turns():
    """Forwards and backwards, so that none always has the warmer machine."""
    order = []

    def contestant(name):
        async def run():
            order.append(name)
            return len(order)

        return run

    outcomes = await take_turns({name: contestant(name) for name in "abc"}, rounds=3)
    assert "".join(order) == "abccbaabc"
    assert outcomes == {"a": [1, 6, 7], "b": [2, 5, 8], "c": [3, 4, 9]}


def test_a_report_for_people_and_for_programs():
    """Figures with three digits, or whole; nothing to measure is a dash and null."""
    verdict = Verdict("p50", 1.23456, "at most", 2.0, "times bare")
    rows = [{"server": "ours", "requests/s": 12345.6, "p50 ms": None}]
    report = Report("title", rows, [verdict])
    console = Console(width=100)
    with console.capture() as printed:
        console.print(report.as_table())
    lines = printed.get().splitlines()
    assert lines[0] == "title"
    assert any(line.split() == ["ours", "12,346", "-"] for line in lines)
    assert "  met: p50: 1.23, required at most 2 times bare" in lines
    assert json.loads(json.dumps(report.as_json())) == {
        "title": "title",
        "rows": rows,
        "verdicts": [
            {
                "what": "p50",
                "measured": 1.23456,
                "required": "at most 2 times bare",
                "met": True,
            }
        ],
    }
