"""Policies are made from names, classes and objects; a mistake is told with what was expected."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adaptive_batching import batched
from adaptive_batching.core import BatchRecord, Dispatch, Reason, Situation, make_policy
from adaptive_batching.core.policies import KNOWN
from adaptive_batching.core.policies.aimd import AIMD, EndToEndAIMD
from adaptive_batching.core.policies.bentoml import BentoML
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.core.policies.deferred import Deferred
from adaptive_batching.core.policies.greedy import Greedy
from adaptive_batching.core.policies.nexus import Nexus
from adaptive_batching.core.policies.shed_first import ShedFirst
from adaptive_batching.core.policies.triton import Triton
from adaptive_batching.core.policies.window import Window


class Mine:
    """A policy of one's own."""

    class Nested(Greedy):
        """One that lives in a class."""

    def decide(self, situation: Situation) -> Dispatch:
        return Dispatch(1, Reason.IDLE)

    def observe(self, batch: BatchRecord) -> None:
        pass


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("cork", Cork), ("greedy", Greedy), ("window:2ms", Window), ("aimd", AIMD),
        ("aimd:4", AIMD), ("aimd:e2e", EndToEndAIMD), ("triton:4,8/2ms", Triton),
        ("triton:8", Triton), ("nexus", Nexus), ("deferred", Deferred),
        ("bentoml", BentoML), ("bentoml:0", BentoML),
        ("bentoml:100us", BentoML), ("greedy+drop", ShedFirst), ("window:2ms+drop", ShedFirst),
        (f"{__name__}:Mine", Mine), (f"{__name__}:Mine.Nested", Mine.Nested),
        (f"{__name__}:Mine+drop", ShedFirst),
    ],
)  # fmt: skip
def test_names(name: str, made: type, here_as_a_module: None) -> None:
    """Each makes a fresh policy of its class."""
    assert type(make_policy(name)) is made
    assert make_policy(name) is not make_policy(name)


@pytest.fixture
def here_as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """This file, importable by its name."""
    here = SimpleNamespace(Mine=Mine)
    monkeypatch.setitem(sys.modules, __name__, here)  # type: ignore[arg-type]


def test_arguments_arrive() -> None:
    """The numbers in a name are those of the policy."""
    triton, tick = make_policy("triton:8,4/2ms"), make_policy("bentoml:0")
    assert isinstance(triton, Triton)
    assert isinstance(tick, BentoML)
    assert (triton.preferred, triton.delay, tick.tick) == ({4, 8}, 2e-3, 0.0)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("magic", r"policy: expected one of cork, greedy, .*, MODULE:CLASS, got 'magic'$"),
        ("", r"expected one of cork, .*, got ''$"),
        ("crok", r"got 'crok'; did you mean cork\?$"),
        ("Greedy", r"got 'Greedy'; did you mean greedy\?$"),
        ("window", r"got 'window'; did you mean window:TIMEOUT\?$"),
        ("windows 2ms", r"got 'windows 2ms'; did you mean window:TIMEOUT\?$"),
        ("triton", r"got 'triton'; did you mean triton:SIZES\[/DELAY\]\?$"),
        ("amid:e2e", r"no module named 'amid'.; did you mean aimd\[:STEP\] or aimd:e2e\?$"),
        ("greedy+dorp", r"got 'greedy\+dorp'; did you mean greedy\?$"),
        ("cork:", r"expected one of cork, .*, got 'cork:'; did you mean cork\?$"),
        ("cork:2ms", r"expected one of cork, .*, got 'cork:2ms'"),
        ("magic+drop", r"expected one of cork, .*, got 'magic\+drop'$"),
        ("nowhere:Mine", r"got 'nowhere:Mine' \(no module named 'nowhere'\)"),
        ("json.nowhere:Mine", r"\(no module named 'json.nowhere'\)"),
        ("json:Magic", r"\(module 'json' has no Magic\)"),
        ("json:decoder.Magic", r"\(module 'json' has no decoder.Magic\)"),
        ("json:decoder", r"policy 'json:decoder': expected a class or a function .*, got <module"),
        ("builtins:dict", r"policy 'builtins:dict': policy: expected an object with decide"),
        ("window:2", r"policy 'window:2': expected a duration with a unit"),
        ("window:-1ms", r"policy 'window:-1ms'"),
        ("aimd:fast", r"policy 'aimd:fast': expected a positive step in items, or e2e, got 'fast'"),
        ("aimd:0", r"policy 'aimd:0': expected a positive step in items, or e2e, got '0'"),
        ("triton:four", r"policy 'triton:four': expected sizes such as 4,8,16, got 'four'"),
        ("triton:0", r"expected sizes of at least 1 item, got \[0\]"),
        ("triton:4/2", r"policy 'triton:4/2': expected a duration with a unit"),
        ("bentoml:1", r"policy 'bentoml:1': expected a duration with a unit"),
        ("cork+drop", r"policy 'cork\+drop': Cork turns jobs away by itself"),
        ("bentoml+drop", r"policy 'bentoml\+drop': BentoML turns jobs away by itself"),
        ("greedy+drop+drop", r"expected one of cork, .*, got 'greedy\+drop\+drop'"),
    ],
)
def test_mistakes_in_names(name: str, complaint: str) -> None:
    """What was expected and what was there."""
    with pytest.raises(ValueError, match=complaint):
        make_policy(name)


def test_what_a_module_raises_goes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is there and can't import something else is not called unknown."""
    (tmp_path / "policy_with_a_gap.py").write_text("import nowhere_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all"):
        make_policy("policy_with_a_gap:Mine")


def test_classes_factories_and_objects() -> None:
    """A class and a factory are called, an object is taken as it is."""
    mine = Mine()
    assert make_policy(mine) is mine
    assert type(make_policy(Mine)) is Mine
    assert type(make_policy(lambda: Window(1e-3))) is Window


class Half:
    """Decides and never listens."""

    decide = Mine.decide


class Demanding(Mine):
    """Can't be made without being told something."""

    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        (lambda: None, r"with decide and observe, got None without decide and observe"),
        (Half, r"expected an object with decide and observe, got <.*Half .*> without observe"),
        (Half(), r"expected a name, or an object with decide and observe, got <.*Half object"),
        (7, r"expected a name, or an object with decide and observe, got 7"),
        (Demanding, r"without arguments, such as lambda: Demanding\(...\); .* argument: 'size'"),
    ],
)
def test_what_is_no_policy(policy: Any, complaint: str) -> None:
    """It is shown, with what it lacks; a decorator says so where it is written."""
    with pytest.raises(TypeError, match=complaint):
        make_policy(policy)
    with pytest.raises(TypeError, match=complaint):
        batched(policy=policy)


def test_each_known_name_is_known() -> None:
    """The list in the message is the list."""
    heads = {name.split(":")[0].split("[")[0] for name in KNOWN}
    assert heads == {
        "cork", "greedy", "window", "aimd", "triton", "nexus", "deferred", "bentoml", "NAME+drop",
        "MODULE",
    }  # fmt: skip
