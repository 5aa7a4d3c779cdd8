"""Zones come only from the pinned package, and no change of their clocks is missed."""

import itertools
import struct
import zoneinfo
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import pytest

from scheduler_service.domain.crons import load_zone, tzdata_version, zones
from scheduler_service.domain.crons.zones import stretches, zone_names

CHUNKS = 30
UNTIL = int(datetime(2038, 1, 1, tzinfo=UTC).timestamp())


def changes_on_file(name: str) -> list[tuple[int, int]]:
    """When the offset changes and to what, since 1970, as the zone's file lists it (RFC 9636, section 3)."""
    content = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    head = struct.Struct(">4s1s15x6l")
    _, _, utc, std, leap, times, types, chars = head.unpack_from(content)
    place = head.size + times * 5 + types * 6 + chars + leap * 8 + std + utc
    _, _, utc, std, leap, times, types, chars = head.unpack_from(content, place)
    place += head.size
    instants = struct.unpack_from(f">{times}q", content, place)
    kinds = struct.unpack_from(f">{times}B", content, place + times * 8)
    offsets = [struct.unpack_from(">lbb", content, place + times * 9 + kind * 6)[0] for kind in range(types)]
    found = []
    before = offsets[0]
    for instant, kind in zip(instants, kinds, strict=True):
        if offsets[kind] != before and 0 <= instant < UNTIL:
            found.append((instant, offsets[kind]))
        before = offsets[kind]
    return found


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_change_that_is_on_file_is_found(chunk: int) -> None:
    some = 0
    for name in sorted(zone_names())[chunk::CHUNKS]:
        on_file = changes_on_file(name)
        if not on_file:
            continue
        end = on_file[-1][0] + 1
        cut = list(stretches(load_zone(name), 1, end))
        found = [(two.start, two.offset) for one, two in itertools.pairwise(cut) if one.offset != two.offset]
        assert found == on_file, name
        some += len(found)
    assert some > 0


@pytest.mark.parametrize("name", ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "UTC"])
def test_stretches_cover_the_span_without_gaps(name: str) -> None:
    first, end = 1_300_000_000, 1_700_000_000
    cut = list(stretches(load_zone(name), first, end))
    assert cut[0].start <= first < cut[0].end
    assert cut[-1].start < end <= cut[-1].end
    assert all(one.end == two.start for one, two in itertools.pairwise(cut))
    shown = [datetime.fromtimestamp(one.start, load_zone(name)).utcoffset() for one in cut]
    assert [one.offset for one in cut] == [offset.total_seconds() for offset in shown if offset is not None]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_change_of_later_years_is_found(chunk: int) -> None:
    """Searched once a week, and at both sides of each change."""
    for name in sorted(zone_names())[chunk::CHUNKS]:
        zone = load_zone(name)
        for first, last in ((2036, 2065), (2080, 2096), (2390, 2405), (9970, 9998)):
            begin, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (first, last))
            for one in stretches(zone, begin, end):
                looked_at = {one.start, one.end - 1, *range(one.start, one.end, 7 * 86_400)}
                shown = {datetime.fromtimestamp(instant, zone).utcoffset() for instant in looked_at}
                assert shown == {timedelta(seconds=one.offset)}, (name, one)


@pytest.mark.parametrize("name", ["Europe/Berlin", "Africa/Casablanca", "Asia/Gaza", "Asia/Tokyo"])
def test_a_rule_over_a_century_costs_no_look_at_each_of_its_days(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(zone: zoneinfo.ZoneInfo, instant: int) -> int:
        nonlocal looks
        looks += 1
        return offset_at(zone, instant)

    offset_at = zones._offset
    monkeypatch.setattr(zones, "_offset", counted)
    for cache in (zones._changes, zones._changes_by_rule):
        cache.cache_clear()
    begin = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp())
    assert len(list(stretches(load_zone(name), begin, begin + 36_525 * 86_400))) >= 100
    assert 0 < looks < 15 * 366 + 2_000


def test_the_machine_s_zones_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(key: str) -> None:
        raise AssertionError(f"{key} was looked for on the machine")

    monkeypatch.setattr(zoneinfo, "ZoneInfo", refuse)
    load_zone.cache_clear()
    zone = load_zone("Europe/Berlin")
    assert (zone.key, load_zone("Europe/Berlin") is zone) == ("Europe/Berlin", True)


def test_every_name_can_be_loaded() -> None:
    assert {load_zone(name).key for name in zone_names()} == zone_names()
    assert len(zone_names()) > 500


def test_the_release_is_named() -> None:
    release = tzdata_version()
    assert (release[:4].isdigit(), release[4:].islower(), len(release)) == (True, True, 5)
