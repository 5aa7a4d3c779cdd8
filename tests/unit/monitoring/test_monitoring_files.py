"""The chart's rules, runbook and dashboard are complete, have distinct names, and use only metrics that exist."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from minutehand.config import TABLES
from minutehand.reference_pages import documented
from scheduler_service.runtime.metrics import Kind
from tests.support.prometheus import DASHBOARD, RULES, RUNBOOK, load_rules, series_names

SERIES = set(series_names(documented()))
LABELS = {one.name: {*one.labels, *({"le"} if one.kind is Kind.HISTOGRAM else ())} for one in documented()}
ADDED_BY_A_SCRAPE = {"instance", "job", "release"}
PROGRAMS_OF = {one.name: one.programs for one in documented()}
NAME = re.compile(r"\bminutehand_\w+")
SELECTOR = re.compile(r"(minutehand_\w+)\{([^}]*)\}")
BY = re.compile(r"\bby \(([^)]*)\)")
SEVERITIES = {"critical", "warning", "info"}
PROMISES = 7

ALERTS = load_rules()
HEADINGS = re.findall(r"^## (\w+)$", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)


def panels() -> Iterator[dict[str, Any]]:
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        yield panel
        yield from panel.get("panels", ())


def queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel.get("targets", ())]


def faults_of(expression: str) -> list[str]:
    """Wrong uses of our metrics in an expression."""
    names = set(NAME.findall(expression))
    known = {name: re.sub(r"_(bucket|sum|count)$", "", name) if name not in LABELS else name for name in names}
    faults = [f"{name} is not documented" for name in names if name not in SERIES]
    for name, selector in SELECTOR.findall(expression):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', selector)))
        faults += [
            f"{name} has no label {label}" for label in labels - LABELS.get(known[name], set()) - ADDED_BY_A_SCRAPE
        ]
    everywhere = set().union(ADDED_BY_A_SCRAPE, *(LABELS.get(metric, set()) for metric in known.values()))
    for group in BY.findall(expression):
        faults += [f"nothing there has a label {label}" for label in set(re.split(r",\s*", group)) - everywhere]
    if not names:
        faults.append("no metric of ours")
    return faults


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("rate(minutehand_nothing_total[5m])", "minutehand_nothing_total is not documented"),
        ("minutehand_fire_lateness_seconds", "minutehand_fire_lateness_seconds is not documented"),
        ('minutehand_members{phase="live"}', "minutehand_members has no label phase"),
        ("sum by (phase) (minutehand_members)", "nothing there has a label phase"),
        ("up == 0", "no metric of ours"),
    ],
)
def test_what_does_not_exist_is_found(expression: str, fault: str) -> None:
    assert faults_of(expression) == [fault]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_is_whole_and_has_its_section(alert: dict[str, Any]) -> None:
    assert faults_of(alert["expr"]) == []
    assert alert["labels"]["severity"] in SEVERITIES
    notes = alert["annotations"]
    assert notes.keys() == {"summary", "description", "runbook"}
    assert all(notes[name].endswith(".") for name in ("summary", "description"))
    assert notes["runbook"] == f"runbook.md#{alert['alert'].lower()}"
    assert HEADINGS.count(alert["alert"]) == 1


def test_every_section_is_of_an_alert_and_says_what_to_do() -> None:
    assert [alert["alert"] for alert in ALERTS] == HEADINGS
    sections = re.split(r"^## \w+$", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for name, section in zip(HEADINGS, sections, strict=True):
        for part in ("**Means:**", "**Look at:**", "**Do:**"):
            assert section.count(part) == 1, f"{name} lacks {part}"


def test_the_runbook_names_metrics_and_commands_that_exist() -> None:

    from tests.support.command_tree import command_tree

    text = RUNBOOK.read_text(encoding="utf-8")
    assert {name for name in NAME.findall(text) if name not in SERIES | LABELS.keys()} == set()
    tree = command_tree()
    for line in re.findall(r"`minutehand ([a-z -]+)", text):
        command = tree
        for word in line.split():
            if not hasattr(command, "commands"):
                break
            assert word in command.commands, f"there is no `minutehand {line}`"
            command = command.commands[word]


def test_the_runbook_names_settings_that_exist() -> None:
    settings = {table.name: table.typed_keys() for table in TABLES}
    named = re.findall(r"`([a-z]+)\.([a-z_]+)`", RUNBOOK.read_text(encoding="utf-8"))
    told = [(table, key) for table, key in named if table in settings]
    assert len(told) > 5
    assert [f"{table}.{key}" for table, key in told if key not in settings[table]] == []


def test_the_rules_are_no_template() -> None:
    """They are loaded unchanged, by Prometheus and by the chart."""
    assert "{{" not in RULES.read_text(encoding="utf-8")


def test_the_dashboard_shows_every_promise_and_only_what_exists() -> None:
    document = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert document["schemaVersion"] >= 39
    rows = [panel["title"] for panel in panels() if panel["type"] == "row"]
    assert rows[0] == "Now: are calls made, are they on time, do the books balance?"
    assert [title.split(".")[0] for title in rows[1 : PROMISES + 1]] == [str(number + 1) for number in range(PROMISES)]
    faults = {expression: faults for expression in queries() if (faults := faults_of(expression))}
    assert faults == {}
    for panel in panels():
        if panel["type"] != "row":
            assert panel["description"].endswith("."), panel["title"]
            assert panel["targets"], panel["title"]
            assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))


def test_every_selector_of_the_dashboard_heeds_the_variables_that_it_can() -> None:
    variables = [one["name"] for one in json.loads(DASHBOARD.read_text(encoding="utf-8"))["templating"]["list"]]
    assert variables == ["datasource", "release", "node", "instance", "client"]
    for expression in queries():
        for name, selector in re.findall(r"\b(minutehand_\w+)(?:\{([^}]*)\})?", expression):
            metric = name if name in LABELS else re.sub(r"_(bucket|sum|count)$", "", name)
            place = "node" if PROGRAMS_OF[metric] == ("node",) else "instance"
            wanted = {'release=~"$release"', f'instance=~"${place}"'}
            if "client" in LABELS[metric]:
                wanted.add('client=~"$client"')
            assert wanted <= set(selector.split(",")), expression


def test_panels_are_read_in_their_order_and_overlap_nowhere() -> None:
    taken: set[tuple[int, int]] = set()
    places = []
    for panel in panels():
        at = panel["gridPos"]
        places.append((at["y"], at["x"]))
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert places == sorted(places)
    stats = [panel for panel in panels() if panel["type"] == "stat"]
    assert {panel["gridPos"]["y"] for panel in stats} == {1}


def test_whatever_is_counted_is_shown() -> None:
    """Every metric is used by an alert or by the dashboard."""
    used = NAME.findall(" ".join([*queries(), *(alert["expr"] for alert in ALERTS)]))
    unused = (
        {one.name for one in documented()} - set(used) - {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    )
    assert unused == set()
