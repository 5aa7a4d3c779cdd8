"""What is read of BigBen's events."""

from minutehand.importing.bigben import read_bigben
from minutehand.importing.meaning import judge
from scheduler_service.domain.instants import format_instant


def test_bigben() -> None:
    csv = (
        'tenant,event_id,event_time,payload\nshop,e1,2027-02-01T10:00:00+05:30,"{""a"": 1}"\nshop,,2027-02-01T10:00Z,\n'
    )
    found = read_bigben(csv)
    assert (found.entries[0].name, found.entries[0].body) == ("shop.e1", '{"a": 1}')
    meant = judge(found.entries[0], now=0).meant
    assert meant is not None
    assert [format_instant(at) for at in meant.fires] == ["2027-02-01T04:30:00.000Z"]
    assert [fault.place for fault in found.faults] == ["line 3"]
    assert (
        read_bigben('{"tenant":"t","eventId":"e","eventTime":"2027-02-01T10:00Z","payload":{"b":2}}').entries[0].body
        == '{"b": 2}'
    )


def test_the_columns_of_its_tables() -> None:
    events = "event_time,id,payload,tenant,xref_id\n2027-02-01 10:00:00.000000+0000,u1,{},shop,order-17\n"
    lookups = "tenant,xref_id,event_id,event_time,payload\nshop,order-17,u1,2027-02-01T10:00:00Z,{}\n"
    for csv in (events, lookups):
        (one,) = read_bigben(csv).entries
        assert one.name == "shop.order-17"
        meant = judge(one, now=0).meant
        assert meant is not None
        assert [format_instant(at) for at in meant.fires] == ["2027-02-01T10:00:00.000Z"]
