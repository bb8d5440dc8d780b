"""What a benchmark found: figures, and how they stand to what is required."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

Row = dict[str, str | float | None]
"""One line of figures; the keys are the headings and name the unit."""


class Unavailable(Exception):
    """Something is missing on this machine; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One requirement and what was measured.

    Attributes:
        what: What is required of.
        measured: The figure.
        bound: Which side of the figure is good.
        required: The limit.
        unit: Of both.
    """

    what: str
    measured: float
    bound: Literal["at most", "at least"]
    required: float
    unit: str

    @property
    def met(self) -> bool:
        """Whether the requirement was met in this run."""
        if self.bound == "at most":
            return self.measured <= self.required
        return self.measured >= self.required

    def __str__(self) -> str:
        verdict = "met" if self.met else "NOT MET"
        requirement = f"{self.bound} {self.required:,g} {self.unit}"
        return f"{verdict}: {self.what}: {self.measured:,.3g}, required {requirement}"


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one benchmark.

    Attributes:
        title: What was measured, and under which conditions.
        rows: With the same keys each.
        verdicts: On the requirements.
    """

    title: str
    rows: Sequence[Row]
    verdicts: Sequence[Verdict]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        verdicts = [
            {
                "what": verdict.what,
                "measured": verdict.measured,
                "required": f"{verdict.bound} {verdict.required:g} {verdict.unit}",
                "met": verdict.met,
            }
            for verdict in self.verdicts
        ]
        return {"title": self.title, "rows": list(self.rows), "verdicts": verdicts}

    def as_table(self) -> Group:
        """For people."""
        drawn = Table(box=box.SIMPLE_HEAD)
        for name, value in self.rows[0].items():
            justify: Literal["left", "right"] = "left" if isinstance(value, str) else "right"
            drawn.add_column(name, justify=justify, no_wrap=True)
        for row in self.rows:
            drawn.add_row(*map(_cell, row.values()))
        return Group(
            Text(self.title), drawn, *(Text(f"  {verdict}") for verdict in self.verdicts), Text()
        )


def ratio(ours: Sequence[float], bare: Sequence[float]) -> float:
    """Median of the ratios of neighbours in time: what slows the machine slows both."""
    return median(our / their for our, their in zip(ours, bare, strict=True))


def _cell(value: str | float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
