"""Contradictory settings are refused with advice; ids; the view."""

import re
from typing import Any

import pytest

from membership.errors import SettingsInvalid
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey, next_incarnation
from membership.ports import Heartbeat, NodeState
from membership.settings import MembershipSettings
from membership.view import MembersView


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"dead_after_seconds": 5.9}, "dead_after_seconds is 5.9; it must be at least"),
        ({"trust_seconds": 4.5}, "dead_after_seconds is 6"),
        ({"trust_seconds": 1.5}, "trust_seconds is 1.5; with a beat every 1 s"),
        ({"gap_seconds": 1.0}, "gap_seconds is 1; it must lie between"),
        ({"gap_seconds": 6.0}, "gap_seconds is 6"),
        ({"beat_seconds": 0.0}, "beat_seconds must be above 0"),
        ({"send_margin_seconds": -1.0}, "send_margin_seconds must not be negative"),
    ],
)
def test_contradictions_are_refused(changed: dict[str, float], words: str) -> None:
    with pytest.raises(SettingsInvalid, match=re.escape(words)):
        MembershipSettings(**changed)  # type: ignore[arg-type]


def test_the_defaults_hold_together() -> None:
    settings = MembershipSettings()
    assert (settings.beat_seconds, settings.trust_seconds, settings.dead_after_seconds) == (1.0, 4.0, 6.0)


def test_an_incarnation_is_the_time_but_above_all_earlier_ones_of_its_node() -> None:
    node, other = NodeId("a"), NodeId("b")
    known = [
        NodeIncarnation(node, IncarnationNumber(70)),
        NodeIncarnation(node, IncarnationNumber(30)),
        NodeIncarnation(other, IncarnationNumber(900)),
    ]
    assert next_incarnation(node, known=known, wall_ms=100) == 100
    assert next_incarnation(node, known=known, wall_ms=70) == 71
    assert next_incarnation(node, known=[], wall_ms=5) == 5


def test_names_read_well() -> None:
    assert str(NodeIncarnation(NodeId("a"), IncarnationNumber(5))) == "a@5"
    assert str(PollerKey("shop", 3)) == "shop/3"


def heartbeat(name: str, number: int, state: NodeState = NodeState.LIVE, **values: Any) -> Heartbeat:
    incarnation = NodeIncarnation(NodeId(name), IncarnationNumber(number))
    plain: dict[str, Any] = {"beat": 1, "address": "", "wall_ms": 0, "version": "", "low_watermark": None}
    return Heartbeat(incarnation=incarnation, state=state, **{**plain, **values})


def test_hints_go_to_the_newest_incarnation_of_a_node_unless_it_drains() -> None:
    members = (
        heartbeat("a", 1, weight=1.0, low_watermark=10),
        heartbeat("a", 2, NodeState.DRAINING, weight=1.0, low_watermark=20),
        heartbeat("b", 1, NodeState.DRAINING, weight=1.0),
        heartbeat("b", 2, weight=2.5),
    )
    view = MembersView(members=members, heartbeats={member.incarnation: member for member in members})
    assert view.hint_weights() == {"b": 2.5}
    assert view.low_watermark_of(NodeIncarnation(NodeId("a"), IncarnationNumber(1))) == 10, (
        "the low watermark of exactly that incarnation"
    )
    assert view.low_watermark_of(NodeIncarnation(NodeId("b"), IncarnationNumber(2))) is None
    assert view.low_watermark_of(NodeIncarnation(NodeId("c"), IncarnationNumber(1))) is None


def test_what_all_know_is_what_every_member_tells() -> None:
    """Nothing is known before the first read; ended incarnations are no members."""

    newer, older = heartbeat("a", 1, knows=14), heartbeat("b", 1, knows=13)
    assert not MembersView().all_know(14)
    assert MembersView(members=(newer,), heartbeats={older.incarnation: older}).all_know(14)
    assert not MembersView(members=(newer, older)).all_know(14)
    assert MembersView(members=(newer, older)).all_know(13)
