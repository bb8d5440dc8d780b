"""How many numbers behind a decision of `cork` are neither learned nor asked of the user?

Covers: the modules of `core/` that `cork` and the admission import, directly or not, but for those
of tenants and of failures, which decide whose jobs are in a batch and what runs again.

Counted are the fields of `CorkParameters`, every other name that a module binds to a number, and
every number in an expression but 0, 1, 2, -1 and 0.5, indices, and operands of <<, >> and &. A name
that is reckoned from others does not count, nor do defaults of what a user or a driver says. Guards
are counted apart: they bound memory or time, keep arithmetic among finite numbers, or are facts of
mathematics.

Answer: 35. There were 69 by the same count before a rule had to show what it buys.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from drawn import drawn

import adaptive_batching

ROOT = Path(adaptive_batching.__file__).parent
BEGIN = ("core/policies/cork/cork.py", "core/admission.py")
ELSEWHERE = ("core/fairness/", "core/retry/")
IDENTITIES = (0, 1, 2, -1, 0.5)
PARAMETERS = "CorkParameters"
ASKED = {"TIMER_RESOLUTION"}
GUARDS = {
    "_ENDLESS": "numbers: seconds that are finite",
    "_LONGEST": "numbers: seconds whose squares are finite",
    "_WORST": "numbers: residuals that are finite",
    "_OVERFLOW": "numbers: weights that are finite",
    "_FOR_EVER": "numbers: seconds that are finite",
    "_NEARLY_NONE": "numbers: a divisor that is nearly 0",
    "_BRIEFEST": "numbers: a divisor that a coarse clock says is 0",
    "_ONE_SIZE": "numbers: a variance that is nearly 0",
    "_ROUNDING": "numbers: what floats are rounded by",
    "_FREE": "numbers: a group below those of all costs",
    "_UNDIGESTED": "memory: arrivals while no batch leaves",
    "_POSITIONS": "memory: places in a clump",
    "_REMEMBERED": "memory: batch keys",
    "_GRAVESTONES": "memory: entries of jobs that have left",
    "_COARSE": "memory: bits of an instant that are left out",
    "_DIGITS": "memory: bits of an instant that are kept, by three",
    "_OCTAVES": "memory: the finest steps of the histogram",
    "_ROUND_OF_ANSWERS": "time: answers between two looks at the histogram",
    "_RECOUNTED_AFTER": "time: jobs that leave, by those that wait, until these are counted anew",
    "_ROUND": "time: batches between two looks at all sizes",
    "_MISSES": "time: jobs that are tried and don't fit into a batch",
    "_SAME": "time: other lookaheads for which all keys are sorted anew",
    "DEVIATION": "mathematics: of a normal distribution",
    "_MEDIAN_DEVIATION": "mathematics: of a normal distribution",
}


def imported(file: str) -> Iterator[str]:
    """The modules of the core that one imports."""
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            other = node.module.removeprefix("adaptive_batching.").replace(".", "/") + ".py"
            if other.startswith("core/") and not other.startswith(ELSEWHERE):
                yield other


def reachable() -> list[str]:
    """The modules that are counted."""
    found = dict.fromkeys(BEGIN)
    ahead = list(BEGIN)
    while ahead:
        new = [file for file in imported(ahead.pop()) if file not in found]
        found.update(dict.fromkeys(new))
        ahead += new
    return sorted(found)


def number(node: ast.AST | None) -> float | None:
    """The value of a literal; None if it is no number."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = number(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        return float(node.value)
    return None


class Numbers(ast.NodeVisitor):
    """The numbers of a module.

    Attributes:
        found: Names that are bound to one, and values of those that have no name, as they stand.
    """

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Module(self, node: ast.Module) -> None:
        """A name that a module binds to a number counts, whatever the number."""
        for each in node.body:
            if not self._bound(each):
                self.visit(each)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A default of a field counts if the field is a parameter."""
        for each in node.body:
            if not isinstance(each, ast.AnnAssign):
                self.visit(each)
            elif node.name == PARAMETERS and not self._bound(each):
                self.generic_visit(each)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """An index does not count."""
        self.visit(node.value)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        """Text does not count."""

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Numbers of bits do not count."""
        if not isinstance(node.op, ast.LShift | ast.RShift | ast.BitAnd):
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Numbers of bits do not count."""
        if not isinstance(node.op, ast.LShift | ast.RShift):
            self.visit(node.value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """A negative number is one number."""
        if not self._counted(node):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Any other number counts unless it is an identity."""
        self._counted(node)

    def _bound(self, node: ast.stmt) -> bool:
        """Count a name that is bound to a number; False if the statement does not bind one."""
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            return False
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not isinstance(target, ast.Name) or number(node.value) is None:
            return False
        self.found.append(target.id)
        return True

    def _counted(self, node: ast.expr) -> bool:
        """Count a literal; False if it is no number."""
        value = number(node)
        if value is not None and value not in IDENTITIES:
            self.found.append(f"{value:g}")
        return value is not None


tuned: list[str] = []
guards: list[str] = []
for file in reachable():
    numbers = Numbers()
    numbers.visit(ast.parse((ROOT / file).read_text()))
    place = f"{file.removeprefix('core/'):30} "
    for name in numbers.found:
        if name in GUARDS:
            guards.append(f"{place}{name:18} {GUARDS[name]}")
        elif name not in ASKED:
            tuned.append(place + name)
print(f"{len(tuned)} numbers are tuned, {len(guards)} are guards")
for row in drawn(tuned + guards):
    print(row)
