"""Which fires and calls move between releases of the zone database; no Spark is started."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from scheduler_service.domain.crons.row import CronOptions
from scheduler_service.domain.crons.zones import load_zone, read_zone, tzdata_version
from scheduler_service.domain.ids import ClientId, CronId, UnixMillis
from spark.errors import JobRefused
from spark.io.zone_releases import UNKNOWN, read_release
from spark.transforms.zone_moves import (
    CronMoves,
    CronRule,
    ZoneChange,
    call_move,
    cron_moves,
    differences,
    must_expand_again,
    windows,
)
from tests.support.zone_files import zone_file

ZONE = "Test/Town"
SUMMER = [("2027-03-28T01:00", 2), ("2027-10-31T01:00", 1)]
KEEPS = {ZONE: zone_file(1, SUMMER)}
"""Clocks go back to winter time on 31 October."""
STOPS = {ZONE: zone_file(1, SUMMER[:1])}
"""They stay on summer time from the release on."""
EARLIER = {ZONE: zone_file(1, [("2027-03-28T01:00", 2), ("2027-09-26T01:00", 1)])}
"""They go back five weeks before."""
NOW = "2027-06-01T00:00"
UNTIL = "2028-01-01T00:00"
HOUR = 3_600_000


def at(text: str) -> UnixMillis:
    return UnixMillis(int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000)


def told(instant: int | None) -> str | None:
    return None if instant is None else datetime.fromtimestamp(instant / 1000, UTC).strftime("%m-%d %H:%M")


def changed(old: Mapping[str, bytes], new: Mapping[str, bytes], now: str = NOW) -> Mapping[str, ZoneChange]:
    return differences(old, new, first=at(now) // 1000, end=at(UNTIL) // 1000).changed


def cron(
    expression: str, *, through: str = NOW, wake_at: str | None = None, fires: int = 0, **options: Any
) -> CronRule:
    return CronRule(
        client_id=ClientId("shop"),
        cron_id=CronId("daily"),
        expression=expression,
        timezone="Europe/Berlin",  # a rule is valid in installed zones only; its clocks are the test's
        options=CronOptions(**options),
        created_at=at("2027-01-01T00:00"),
        expanded_through=at(through),
        fires=fires,
        wake_at=None if wake_at is None else at(wake_at),
    )


def moves(rule: CronRule, old: Mapping[str, bytes], new: Mapping[str, bytes], now: str = NOW) -> CronMoves | None:
    return cron_moves(rule, changed(old, new, now)[ZONE], now=at(now), until=at(UNTIL))


def shown(found: CronMoves | None, count: int = 3) -> list[tuple[str | None, str | None, str]]:
    assert found is not None
    return [(told(move.old), told(move.new), move.local[5:16].replace("T", " ")) for move in found.listed[:count]]


def test_only_zones_whose_clocks_differ_ahead_and_only_then() -> None:
    # The files differ, the clocks from now on don't.
    same = {"Test/Past": zone_file(3, [("2020-01-01T00:00", 1)])}
    past = {"Test/Past": zone_file(2, [("2020-01-01T00:00", 1)])}
    old, new = {**KEEPS, **same, "Test/Gone": KEEPS[ZONE]}, {**EARLIER, **past, "Test/New": KEEPS[ZONE]}
    found = differences(old, new, first=at(NOW) // 1000, end=at(UNTIL) // 1000)
    assert found.gone == ("Test/Gone",)
    assert [(name, [(told(first * 1000), told(end * 1000)) for first, end in change.spans])
            for name, change in found.changed.items()] == [(ZONE, [("09-24 01:00", "11-02 01:00")])]  # fmt: skip
    assert changed(KEEPS, KEEPS) == {}


def test_spans_end_with_the_horizon_and_are_read_in_few_windows() -> None:
    (span,) = changed(KEEPS, STOPS)[ZONE].spans
    assert (told(span[0] * 1000), span[1]) == ("10-29 01:00", at(UNTIL) // 1000)
    day, hour = 86_400, 3_600
    read = [(one.start, one.end) for one in windows([(40 * day, 41 * day), (10, hour + 1), (100 * day, 100 * day)])]
    epoch = datetime(1970, 1, 1, tzinfo=UTC).timestamp()
    assert [(one.timestamp() - epoch, two.timestamp() - epoch) for one, two in read] == [
        (0, 2 * hour),
        (40 * day, 41 * day),
        (100 * day, 100 * day + hour),
    ]
    assert len(windows([(0, hour), (29 * day, 30 * day)])) == 1


def test_a_daily_fire_moves_by_an_hour_for_five_weeks() -> None:
    found = moves(cron("30 9 * * *"), KEEPS, EARLIER)
    assert found is not None
    assert (found.moved, found.lost, found.gained) == (35, 0, 0)
    assert shown(found, 2) == [
        ("09-26 07:30", "09-26 08:30", "09-26 09:30"),
        ("09-27 07:30", "09-27 08:30", "09-27 09:30"),
    ]
    assert told(found.first) == "09-26 07:30"
    assert shown(found, 99)[-1][2] == "10-30 09:30"


def test_a_fire_that_is_no_more_repeated_is_lost_where_it_followed_real_time() -> None:
    found = moves(cron("0 */2 * * *"), KEEPS, STOPS)
    assert found is not None
    # The hour from 02:00 came twice on 31 October; afterwards each fire is an hour earlier.
    assert shown(found, 3) == [
        ("10-31 01:00", None, "10-31 02:00"),
        ("10-31 03:00", "10-31 02:00", "10-31 04:00"),
        ("10-31 05:00", "10-31 04:00", "10-31 06:00"),
    ]
    assert (found.lost, found.gained) == (1, 0)


def test_instants_that_both_releases_have_move_only_where_a_time_of_day_is_meant() -> None:
    assert moves(cron("0 * * * *"), KEEPS, STOPS) is None
    both = moves(cron("0 1,2 * * *"), KEEPS, EARLIER)
    assert both is not None
    assert (both.moved, both.lost, both.gained) == (70, 0, 0)


def test_a_fire_that_a_gap_shifts_is_one_of_the_same_day() -> None:
    spring = {ZONE: zone_file(1, [("2027-07-04T01:00", 2)])}
    assert shown(moves(cron("30 2 4 7 *"), {ZONE: zone_file(1)}, spring)) == [
        ("07-04 01:30", "07-04 01:00", "07-04 02:30")
    ]
    skipped = moves(cron("30 2 4 7 *", gap="skip"), {ZONE: zone_file(1)}, spring)
    assert shown(skipped) == [("07-04 01:30", None, "07-04 02:30")]


def test_the_last_fires_are_those_of_either_release() -> None:
    """Two of three fires are left after the one that is placed ahead of now."""
    rule = cron("30 9 30,31 * *", max_fires=3, fires=1, through="2027-10-30T08:00")
    assert shown(moves(rule, KEEPS, STOPS, now="2027-10-29T00:00")) == [
        ("10-31 08:30", "10-31 07:30", "10-31 09:30"),
        ("11-30 08:30", "11-30 07:30", "11-30 09:30"),
    ]


def test_bounds_of_the_rule_hold_in_both() -> None:
    rule = cron("30 9 * * *", starts_at=at("2027-12-01T00:00"), ends_at=at("2027-12-02T08:00"))
    assert shown(moves(rule, KEEPS, STOPS)) == [
        ("12-01 08:30", "12-01 07:30", "12-01 09:30"),
        (None, "12-02 07:30", "12-02 09:30"),
    ]


BERLIN_EARLIER = {"now": "2027-10-31T06:00", "through": "2027-10-31T07:30"}


@pytest.mark.parametrize(
    ("placed", "wake_at", "fires", "again"),
    [
        # 09:30 is 07:30 while summer time stays, and its child is there; the next one is 24 hours on.
        (["2027-10-31T07:30"], "2027-11-01T07:25", 0, False),
        (["2027-10-31T08:30"], "2027-11-01T07:25", 0, True),
        ([], "2027-11-01T07:25", 0, True),
        (["2027-10-31T07:30"], "2027-11-01T08:25", 0, True),
        (["2027-10-31T07:30"], "2027-11-01T08:25", 5, False),
    ],
)
def test_which_crons_are_not_expanded_in_time(placed: list[str], wake_at: str, fires: int, again: bool) -> None:
    zone = read_zone(STOPS[ZONE], ZONE)
    rule = cron("30 9 * * *", through="2027-10-31T07:30", wake_at=wake_at, fires=fires, max_fires=5)
    assert must_expand_again(rule, map(at, placed), zone, now=at("2027-10-31T06:00")) is again


def local(text: str, timezone: str = ZONE, **other: str) -> str:
    return json.dumps(
        {"timeout_seconds": 5, "local_due": {"local": text, "timezone": timezone, **other}}, separators=(",", ":")
    )


@pytest.mark.parametrize(
    ("due", "nominal_due", "standing", "new_due"),
    [
        ("2027-11-09T08:30", None, "moves", "11-09 07:30"),
        ("2027-11-09T08:45", "2027-11-09T08:30", "moves", "11-09 07:45"),
        ("2027-11-09T07:30", None, "there", "11-09 07:30"),
        ("2027-11-09T09:30", None, "elsewhere", "11-09 07:30"),
    ],
)
def test_a_call_moves_with_its_place_in_its_window(
    due: str, nominal_due: str | None, standing: str, new_due: str
) -> None:
    nominal = None if nominal_due is None else at(nominal_due)
    found = call_move(local("2027-11-09T09:30"), due=at(due), nominal_due=nominal, changed=changed(KEEPS, STOPS))
    assert found is not None
    assert (found.standing, told(found.due)) == (standing, new_due)


def test_calls_that_do_not_move() -> None:
    zones, due = changed(KEEPS, STOPS), at("2027-11-09T08:30")
    assert call_move("{}", due=due, nominal_due=None, changed=zones) is None
    assert call_move(local("2027-11-09T09:30", "Test/Other"), due=due, nominal_due=None, changed=zones) is None
    assert call_move(local("2027-08-09T09:30"), due=at("2027-08-09T07:30"), nominal_due=None, changed=zones) is None
    assert call_move('{"local_due":7}', due=due, nominal_due=None, changed=zones) is None
    assert call_move(local("tomorrow"), due=due, nominal_due=None, changed=zones) is None


def test_a_local_time_that_the_new_release_skips_is_lost_if_asked_so() -> None:
    zones = changed({ZONE: zone_file(1)}, {ZONE: zone_file(1, [("2027-07-04T01:00", 2)])})
    due = at("2027-07-04T01:30")
    found = call_move(local("2027-07-04T02:30", gap="skip"), due=due, nominal_due=None, changed=zones)
    assert found is not None
    assert (found.standing, found.new, found.due) == ("lost", None, None)
    shifted = call_move(local("2027-07-04T02:30"), due=due, nominal_due=None, changed=zones)
    assert shifted is not None
    assert told(shifted.new) == "07-04 01:00"


def test_a_release_is_read_as_it_is_distributed(tmp_path: Path) -> None:
    package = tmp_path / "site" / "tzdata"
    (package / "zoneinfo" / "Test").mkdir(parents=True)
    (package / "__init__.py").write_text('"""As 2020a."""\nIANA_VERSION = "2027c"\n')
    for name in ("Town", "notes"):
        (package / "zoneinfo" / "Test" / name).write_bytes(KEEPS[ZONE] if name == "Town" else b"nothing")
    wheel = tmp_path / "tzdata-2027.3-py2.py3-none-any.whl"
    with ZipFile(wheel, "w") as packed:
        for file in package.rglob("*"):
            packed.write(file, file.relative_to(package.parent))
    for where in (package, package.parent, wheel):
        found = read_release(str(where))
        assert (found.version, dict(found.zones)) == ("2027c", KEEPS)
    bare = read_release(str(package / "zoneinfo"))
    assert (bare.version, dict(bare.zones)) == ("2027c", KEEPS)
    system = tmp_path / "zoneinfo"
    (system / "posix" / "Test").mkdir(parents=True)
    (system / "posix" / "Test" / "Town").write_bytes(KEEPS[ZONE])
    (system / "Town").write_bytes(KEEPS[ZONE])
    assert (read_release(str(system)).version, {*read_release(str(system)).zones}) == (UNKNOWN, {"Town"})
    (system / "tzdata.zi").write_text("# version 2027b\n")
    assert read_release(str(system)).version == "2027b"


def test_the_installed_release_is_the_one_that_everything_is_computed_by() -> None:
    installed = read_release("installed")
    assert installed.version == tzdata_version()
    assert differences(installed.zones, installed.zones, first=0, end=1 << 31).changed == {}
    assert read_zone(installed.zones["Europe/Berlin"], "Europe/Berlin").key == load_zone("Europe/Berlin").key


@pytest.mark.parametrize("content", [None, "empty", "file"])
def test_what_is_no_release_is_refused(tmp_path: Path, content: str | None) -> None:
    where = tmp_path / "zones"
    if content == "empty":
        where.mkdir()
    elif content == "file":
        where.write_text("no zip")
    with pytest.raises(JobRefused, match="zones"):
        read_release(str(where))


@pytest.mark.parametrize("data", [b"", b"TZif", b"TZif1" + bytes(39), KEEPS[ZONE][:60]])
def test_what_is_no_zone_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="Test/Town is no zone"):
        read_zone(data, ZONE)
