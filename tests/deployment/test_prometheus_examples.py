"""Alert rules and dashboard of the documentation say what the program can answer."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deployment.promql import known_labels, known_names, labels_of, named

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
RULES = EXAMPLES / "prometheus" / "alerts.yml"
DASHBOARD = EXAMPLES / "grafana" / "dashboard.json"
HOW_TO = EXAMPLES.parent / "how-to" / "operate" / "metrics.md"

needs_promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool is not installed"
)


def rules():
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return group["rules"]


def panels():
    return json.loads(DASHBOARD.read_text())["panels"]


def expressions():
    """Whatever is asked of Prometheus, and by whom."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]:
        yield variable["name"], variable["query"]


@needs_promtool
@pytest.mark.parametrize(
    "check", [("test", "rules", "alerts_test.yml"), ("check", "config", "prometheus.yml")]
)
def test_promtool_agrees(check):
    """Each alert goes off for its reason, and none on a good day."""
    done = subprocess.run(
        ["promtool", *check], cwd=RULES.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested():
    """With a case in which it goes off, and one in which it does not."""
    cases = yaml.safe_load((RULES.parent / "alerts_test.yml").read_text())["tests"]
    asked = [case for each in cases for case in each["alert_rule_test"]]
    alerts = {rule["alert"] for rule in rules()}
    assert {case["alertname"] for case in asked if case.get("exp_alerts")} == alerts
    assert {case["alertname"] for case in asked if not case.get("exp_alerts")} == alerts


def test_every_alert_says_what_to_do():
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert f"`{rule['alert']}`" in HOW_TO.read_text()


@pytest.mark.parametrize(("asker", "expression"), list(expressions()))
def test_every_metric_that_is_asked_for_exists(asker, expression):
    """With the labels by which it is asked for."""
    assert set(named(expression)) <= known_names() | {"adaptive_batching_build_info"}
    for name, label in labels_of(expression):
        assert label in known_labels(name), f"{name} has no label {label}"


@needs_promtool
def test_every_query_of_the_dashboard_is_promql(tmp_path):
    """As a rule it would be accepted."""
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    written = [
        {"record": f"q{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(queries)
    ]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": written}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(queries) > 25


def test_panels_do_not_lie_on_one_another():
    """Each has an id of its own, a place of its own, and says what it shows."""
    shown = panels()
    assert len({panel["id"] for panel in shown}) == len(shown)
    taken = [
        (x, y)
        for panel in shown
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    assert all(panel["description"] and panel["title"] for panel in shown)
