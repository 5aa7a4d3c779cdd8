"""Prometheus's evaluation of the rules: every rule and query is valid, and each alert fires exactly when it should."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.prometheus import DASHBOARD, RULES, load_rules, promtool

ALERTS = {alert["alert"]: alert for alert in load_rules()}
MINUTES = 60
STEP = "15s"
STEPS = MINUTES * 4
"""The length of a case's series."""
LATENESS = 'minutehand_fire_lateness_seconds_bucket{share="guaranteed",le="%s"}'
REQUESTS = 'minutehand_storage_request_duration_seconds_count{statement="nodes.write"}'
SLOW = 'minutehand_storage_request_duration_seconds_bucket{statement="nodes.write",le="%s"}'
ERRORS = 'minutehand_storage_errors_total{statement="nodes.write",kind="%s"}'
STATUS = 'minutehand_api_requests_total{method="GET",route="/v1/cluster",status="%s"}'
NODE = 'minutehand_trusted{instance="a"}'
TAKING = 'minutehand_nodes_taking{instance="%s"}'
POLLERS = 'minutehand_pollers{instance="%s"}'
HELD = 'minutehand_leases_held{instance="%s"}'
SPANS = 'minutehand_trace_spans_total{result="%s"}'
TO_KAFKA = 'minutehand_attempts_total{kind="kafka",code_class="%s"}'
LAG = 'minutehand_ingest_lag_records{instance="%s"}'
INGESTED = 'minutehand_ingest_records_total{instance="%s",result="%s"}'
EXPIRY = 'minutehand_certificate_expiry_timestamp_seconds{setting="ops.tls_cert_file",instance="%s"}'
WAITING = 'minutehand_ingest_waiting{why="%s"}'
LIVE = 'minutehand_members{instance="a",state="live"}'
DEAD = 'minutehand_members{instance="a",state="dead"}'


def grows(by: float, *, start: float = 0) -> str:
    return f"{start}{by:+g}x{STEPS}"


def stays(at: float) -> str:
    return grows(0, start=at)


def jumps(before: float, after: float, *, at_minute: int = 40) -> str:
    """Changes once, then stays."""
    return f"{before}+0x{at_minute * 4} {after}+0x{STEPS - at_minute * 4}"


FEWER = jumps(3, 2, at_minute=30)


class Case(NamedTuple):
    """Series that make an alert fire after 45 minutes, and series that do not."""

    fires: dict[str, str]
    quiet: dict[str, str]
    labels: tuple[tuple[str, str], ...] = ()


CASES = {
    "MinutehandCallsLate": Case(
        {LATENESS % "1.0": grows(980), LATENESS % "2.0": grows(1000), LATENESS % "+Inf": grows(1000)},
        {LATENESS % "1.0": grows(995), LATENESS % "2.0": grows(1000), LATENESS % "+Inf": grows(1000)},
    ),
    "MinutehandBacklogOld": Case(
        {"minutehand_oldest_due_age_seconds": stays(61)}, {"minutehand_oldest_due_age_seconds": stays(59)}
    ),
    "MinutehandBacklogGrows": Case(
        {"minutehand_backlog_rows": grows(100)}, {"minutehand_backlog_rows": grows(-100, start=50_000)}
    ),
    "MinutehandBacklogStays": Case(
        {"minutehand_backlog_rows": grows(-1, start=5_000)}, {"minutehand_backlog_rows": grows(-200, start=50_000)}
    ),
    "MinutehandOverQuota": Case(
        {"minutehand_over_quota_rows_total": grows(30)}, {"minutehand_over_quota_rows_total": grows(10)}
    ),
    "MinutehandCallsInDoubt": Case(
        {"minutehand_in_doubt_total": jumps(0, 200)}, {"minutehand_in_doubt_total": jumps(0, 50)}
    ),
    "MinutehandAttemptsUnrecorded": Case(
        {"minutehand_attempts_unrecorded_total": jumps(0, 5)}, {"minutehand_attempts_unrecorded_total": stays(5)}
    ),
    "MinutehandTargetUnavailable": Case(
        {TO_KAFKA % "unavailable": grows(4), TO_KAFKA % "timeout": grows(2), TO_KAFKA % "acknowledged": grows(5)},
        {
            TO_KAFKA % "unavailable": grows(4),
            TO_KAFKA % "acknowledged": grows(5),
            'minutehand_attempts_total{kind="http",code_class="timeout"}': grows(100),
        },
        (("kind", "kafka"),),
    ),
    "MinutehandCronsForgotten": Case(
        {"minutehand_crons_forgotten_total": jumps(0, 1)}, {"minutehand_crons_forgotten_total": stays(1)}
    ),
    "MinutehandBooksUnbalanced": Case({"minutehand_audit_findings": stays(1)}, {"minutehand_audit_findings": stays(0)}),
    "MinutehandNoNodes": Case({'minutehand_trusted{instance="a"}': stays(0)}, {NODE: stays(1)}),
    "MinutehandNobodyTakes": Case(
        {TAKING % "a": stays(0), TAKING % "b": stays(0)}, {TAKING % "a": stays(0), TAKING % "b": stays(1)}
    ),
    "MinutehandPollersUnowned": Case(
        {POLLERS % "a": stays(20), POLLERS % "b": stays(19), HELD % "a": stays(10), HELD % "b": stays(9)},
        {POLLERS % "a": stays(20), POLLERS % "b": stays(19), HELD % "a": stays(11), HELD % "b": stays(9)},
    ),
    "MinutehandNodeDied": Case(
        {"minutehand_lease_takeovers_total": jumps(0, 4)}, {"minutehand_lease_takeovers_total": stays(4)}
    ),
    "MinutehandNodesMissing": Case(
        {LIVE: FEWER, DEAD: jumps(4, 5, at_minute=30)},
        # A node was removed on purpose, some while after others died.
        {LIVE: FEWER, DEAD: stays(5), 'minutehand_members{state="left"}': jumps(0, 1, at_minute=30)},
    ),
    "MinutehandNodeUntrusted": Case({NODE: stays(0)}, {NODE: stays(1)}, (("instance", "a"),)),
    "MinutehandClientsLocked": Case({"minutehand_clients_locked": stays(2)}, {"minutehand_clients_locked": stays(0)}),
    "MinutehandWritesFenced": Case(
        {"minutehand_fenced_writes_total": jumps(0, 100)}, {"minutehand_fenced_writes_total": jumps(0, 10)}
    ),
    "MinutehandHintsDropped": Case(
        {"minutehand_hints_dropped_total": grows(30)}, {"minutehand_hints_dropped_total": grows(10)}
    ),
    "MinutehandSpansLost": Case(
        {SPANS % "failed": grows(2), SPANS % "exported": grows(50)},
        {SPANS % "failed": jumps(0, 500), SPANS % "dropped": stays(7), SPANS % "exported": grows(50)},
    ),
    "MinutehandClockOff": Case(
        {'minutehand_clock_offset_seconds{instance="a"}': stays(-0.3)},
        {'minutehand_clock_offset_seconds{instance="a"}': stays(0.2)},
        (("instance", "a"),),
    ),
    "MinutehandStorageClockOff": Case(
        {'minutehand_storage_clock_offset_seconds{instance="a"}': stays(-6)},
        {'minutehand_storage_clock_offset_seconds{instance="a"}': stays(4)},
        (("instance", "a"),),
    ),
    "MinutehandClockDoubtful": Case(
        {'minutehand_clock_trusted{instance="a"}': stays(0)},
        {'minutehand_clock_trusted{instance="a"}': stays(1)},
        (("instance", "a"),),
    ),
    "MinutehandStorageUnavailable": Case(
        {ERRORS % "client-timeout": grows(10), REQUESTS: grows(12)},
        {
            ERRORS % "client-timeout": grows(1),
            ERRORS % "overloaded": grows(10),
            REQUESTS: grows(12),
            "minutehand_api_storage_available": stays(1),
        },
    ),
    "MinutehandStorageErrors": Case(
        {ERRORS % "refused": grows(2), REQUESTS: grows(100)}, {ERRORS % "refused": grows(1), REQUESTS: grows(200)}
    ),
    "MinutehandStorageSlow": Case(
        {SLOW % "0.5": grows(95), SLOW % "1.0": grows(100), SLOW % "+Inf": grows(100)},
        {SLOW % "0.5": grows(995), SLOW % "1.0": grows(1000), SLOW % "+Inf": grows(1000)},
    ),
    "MinutehandCertificateExpires": Case(
        # One of several processes is enough.
        {EXPIRY % "a": stays(13 * 86_400), EXPIRY % "b": stays(90 * 86_400)},
        {EXPIRY % "a": stays(15 * 86_400), EXPIRY % "b": stays(90 * 86_400)},
        labels=(("setting", "ops.tls_cert_file"),),
    ),
    "MinutehandApiErrors": Case(
        {STATUS % 500: grows(1), STATUS % 503: grows(1), STATUS % 200: grows(98)},
        {STATUS % 404: grows(90), STATUS % 503: grows(1), STATUS % 200: grows(198)},
    ),
    "MinutehandApiShedding": Case(
        {"minutehand_group_commit_refused_rows_total": grows(1)},
        {"minutehand_group_commit_refused_rows_total": stays(1)},
    ),
    "MinutehandIngestStalled": Case(
        # Another process that goes on does not hide it.
        {
            LAG % "a": stays(5),
            INGESTED % ("a", "created"): stays(9),
            LAG % "b": stays(5),
            INGESTED % ("b", "created"): grows(1),
        },
        {
            LAG % "a": stays(5),
            INGESTED % ("a", "created"): stays(9),
            INGESTED % ("a", "dead-letter"): grows(1),
            LAG % "b": stays(0),
        },
    ),
    "MinutehandIngestLags": Case({LAG % "a": grows(100)}, {LAG % "a": grows(-100, start=50_000)}),
    "MinutehandIngestDeadLetters": Case(
        {INGESTED % ("a", "dead-letter"): jumps(0, 20)}, {INGESTED % ("a", "dead-letter"): jumps(0, 5)}
    ),
    "MinutehandIngestApiAway": Case(
        {WAITING % "passing": stays(1)}, {WAITING % "passing": stays(0), WAITING % "denied": stays(1)}
    ),
    "MinutehandIngestDenied": Case(
        {WAITING % "denied": stays(0), "minutehand_ingest_missing_topics": stays(1)},
        {WAITING % "denied": stays(0), WAITING % "passing": stays(2), "minutehand_ingest_missing_topics": stays(0)},
    ),
}


def test_there_is_a_case_for_every_alert() -> None:
    assert CASES.keys() == ALERTS.keys()


def test_the_rules_can_be_read() -> None:
    content, said = promtool("check", "rules", RULES)
    assert content, said


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_when_it_should_and_only_then(name: str, tmp_path: Path) -> None:
    case, alert = CASES[name], ALERTS[name]
    expected = {"exp_labels": {**alert["labels"], **dict(case.labels)}, "exp_annotations": alert["annotations"]}
    tests = [
        {
            "interval": STEP,
            "input_series": [{"series": series, "values": values} for series, values in given.items()],
            "alert_rule_test": [{"eval_time": "45m", "alertname": name, "exp_alerts": alerts}],
        }
        for given, alerts in ((case.fires, [expected]), (case.quiet, []))
    ]
    assert_promtool_is_content(alert, tests, tmp_path)


def test_one_api_without_storage_is_enough(tmp_path: Path) -> None:
    alert = ALERTS["MinutehandStorageUnavailable"]
    series = {'minutehand_api_storage_available{instance="a"}': 1, 'minutehand_api_storage_available{instance="b"}': 0}
    expected = {"exp_labels": alert["labels"], "exp_annotations": alert["annotations"]}
    test = {
        "interval": STEP,
        "input_series": [{"series": name, "values": stays(value)} for name, value in series.items()],
        "alert_rule_test": [{"eval_time": "45m", "alertname": alert["alert"], "exp_alerts": [expected]}],
    }
    assert_promtool_is_content(alert, [test], tmp_path)


@pytest.mark.parametrize(
    ("series", "missed"),
    [
        pytest.param({LIVE: FEWER, 'up{job="node",instance="b"}': jumps(1, 0, at_minute=30)}, True, id="crashes"),
        pytest.param({LIVE: FEWER, 'up{job="node",instance="c"}': "_x120 0+0x120"}, True, id="crashes-elsewhere"),
        pytest.param({LIVE: FEWER, 'up{job="other",instance="b"}': stays(0)}, False, id="somebody-else"),
        pytest.param({LIVE: FEWER, 'up{job="node",instance="b"}': "1+0x120 _x120"}, False, id="taken-away"),
        pytest.param({LIVE: stays(3), 'up{job="node",instance="b"}': stays(0)}, False, id="none-is-missing"),
        pytest.param(
            {LIVE: FEWER, DEAD: stays(5), DEAD.replace('"a"', '"an-api"'): stays(0)}, False, id="seen-for-unlike-times"
        ),
    ],
)
def test_a_node_is_missed_that_is_wanted(series: dict[str, str], missed: bool, tmp_path: Path) -> None:
    alert = ALERTS["MinutehandNodesMissing"]
    expected = {"exp_labels": alert["labels"], "exp_annotations": alert["annotations"]}
    given = {
        'minutehand_trusted{job="node",instance="a"}': stays(1),
        'up{job="node",instance="a"}': stays(1),
        **series,
    }
    test = {
        "interval": STEP,
        "input_series": [{"series": name, "values": values} for name, values in given.items()],
        "alert_rule_test": [{"eval_time": "45m", "alertname": alert["alert"], "exp_alerts": [expected] * missed}],
    }
    assert_promtool_is_content(alert, [test], tmp_path)


def test_no_node_to_scrape_means_no_calls(tmp_path: Path) -> None:
    alert = ALERTS["MinutehandNoNodes"]
    expected = {"exp_labels": alert["labels"], "exp_annotations": alert["annotations"]}
    test = {
        "interval": STEP,
        "input_series": [{"series": "up", "values": stays(0)}],
        "alert_rule_test": [{"eval_time": "5m", "alertname": alert["alert"], "exp_alerts": [expected]}],
    }
    assert_promtool_is_content(alert, [test], tmp_path)


def assert_promtool_is_content(alert: dict[str, Any], tests: list[dict[str, Any]], directory: Path) -> None:
    """Evaluate only the alert in question: all of them take promtool seconds."""
    rules = directory / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "one", "rules": [alert]}]}), encoding="utf-8")
    document = {"rule_files": [str(rules)], "evaluation_interval": STEP, "tests": tests}
    file = directory / "alert-test.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    content, said = promtool("test", "rules", file)
    assert content, said


def test_every_query_of_the_dashboard_can_be_read(tmp_path: Path) -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    rules = [
        {"record": f"query:{number}", "expr": re.sub(r"\$__\w+", "5m", query)} for number, query in enumerate(queries)
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")
    content, said = promtool("check", "rules", "--lint=none", file)
    assert content, said
    assert len(queries) > 30
