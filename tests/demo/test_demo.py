"""The demo as a user runs it, only shorter."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

DEMO = [sys.executable, "-m", "adaptive_batching", "demo"]


def test_every_answer_is_the_models_own() -> None:
    """All phases run, nothing is wrong or lost, and batching helps."""
    run = subprocess.run(
        [*DEMO, "--seconds", "0.7", "--format", "json"], capture_output=True, check=True
    )
    shown = json.loads(run.stdout)
    assert (shown["wrong"], shown["lost"]) == (0, 0)
    assert shown["answers"] > 0
    assert [phase["max_batch_size"] for phase in shown["phases"]] == [1, 64, 64, 64, 64, 64]
    assert shown["gain"] > 1
    assert shown["measured"]["fixed"] > shown["measured"]["per_item"]
    # On a machine that others use, 0.7 s show what a batch takes, but not what each item adds.
    assert 1e-3 < shown["fitted"]["fixed"] + 64 * shown["fitted"]["per_item"] < 1.0
    for phase in shown["phases"]:
        assert {"offered", "on_time_per_second", "p50", "p99", "mean_batch_size", "refused"} < {
            *phase
        }


def test_keep_leaves_the_service_up() -> None:
    """With --keep the printed URLs answer until Ctrl-C."""
    process = subprocess.Popen(
        [*DEMO, "--seconds", "0.2", "--keep"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        pages: list[str] = []
        while len(pages) < 3:
            line = process.stderr.readline()
            assert line, "the demo ended before it said where the service is"
            pages += re.findall(r"http://\S+/(?:healthz|readyz|metrics)", line)
        for page in pages:
            with urllib.request.urlopen(page) as response:
                assert response.status == 200
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
