"""The demo as a user runs it, only shorter."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from rich.console import Console

from adaptive_batching.demo.experiment import Findings, Phase
from adaptive_batching.demo.report import as_text

DEMO = [sys.executable, "-m", "adaptive_batching", "demo"]


def test_every_answer_is_the_models_own_and_the_service_stays_up() -> None:
    """All phases run, and nothing is wrong or lost; with --keep the URLs answer until Ctrl-C."""
    command = [*DEMO, "--seconds", "0.7", "--format", "json", "--keep"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        try:
            shown = json.loads(run.stdout.readline())
            pages: list[str] = []
            while len(pages) < 3:
                line = run.stderr.readline()
                assert line, "the demo ended before it said where the service is"
                pages += re.findall(r"http://\S+/(?:healthz|readyz|metrics)", line)
            for page in pages:
                with urllib.request.urlopen(page) as response:
                    assert response.status == 200
        finally:
            run.send_signal(signal.SIGINT)
            run.communicate()
    assert run.returncode == 130
    assert (shown["wrong"], shown["lost"]) == (0, 0)
    assert shown["answers"] > 0
    sizes = [phase["max_batch_size"] for phase in shown["phases"]]
    most = 5 if shown["not_sent"] is None else len(sizes)  # a busy machine sends less
    assert sizes == [1, *[64] * (most - 1)]
    alone = shown["measured"]["fixed"] + 64 * shown["measured"]["per_item"]
    assert shown["max_latency"] == pytest.approx(5 * alone, abs=0.01)
    unbatched, *batched = (phase["on_time_per_second"] for phase in shown["phases"])
    assert shown["gain"] == max(batched) / max(unbatched, 1.0)  # how much it is, the machine says
    assert shown["measured"]["fixed"] > shown["measured"]["per_item"]
    # On a machine that others use, 0.7 s show what a batch takes, but not what each item adds.
    assert 1e-3 < shown["fitted"]["fixed"] + 64 * shown["fitted"]["per_item"] < 1.0
    for phase in shown["phases"]:
        assert {"offered", "on_time_per_second", "p50", "p99", "mean_batch_size", "refused"} < {
            *phase
        }


def test_its_table_fits_a_terminal() -> None:
    """No heading and no number is cut at 80 columns."""
    rates = {"offered": 12_345.6, "on_time_per_second": 11_000.0, "refused": 123_456}
    batched = {"p50": 1.2345, "p99": 12.345, "mean_batch_size": 62.8, **rates}
    alone = {"p50": None, "p99": None, "mean_batch_size": 1.0, **rates}
    phases = [Phase(1, "2 alone", **alone), Phase(64, "0.75 batched", **batched)]
    with (console := Console(width=80)).capture() as captured:
        console.print(as_text(Findings(phases=phases)))
    assert "\N{HORIZONTAL ELLIPSIS}" not in captured.get()
    assert "12345.0" in captured.get()
