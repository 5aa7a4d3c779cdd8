"""What gives trust and what does not. Times are seconds on the incarnation's own clock."""

import pytest

from membership.conditional import APPLIED, Rejected, Unknown
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.ports import IncarnationRecord
from membership.trust import Trust

INCARNATION = NodeIncarnation(NodeId("a"), IncarnationNumber(1))


def record(renewals: int, *, alive: bool = True) -> IncarnationRecord:
    return IncarnationRecord(INCARNATION, alive=alive, renewals=renewals)


def trusted_since(instant: float) -> Trust:
    trust = Trust(trust_seconds=4.0)
    trust.renewal_answered(APPLIED, begun=instant)
    return trust


def test_an_incarnation_is_born_lapsed_and_no_beat_changes_that() -> None:
    trust = Trust(trust_seconds=4.0)
    trust.beat_confirmed(begun=0.0, now=0.1)
    assert not trust.trusted(0.1)


def test_a_renewal_counts_from_its_own_start() -> None:
    trust = trusted_since(10.0)
    assert trust.trusted(13.9)
    assert not trust.trusted(14.0)


def test_a_renewal_that_was_answered_too_late_gives_nothing() -> None:
    assert not trusted_since(10.0).trusted(14.5)


def test_a_confirmed_beat_counts_from_the_start_of_its_write() -> None:
    trust = trusted_since(10.0)
    trust.beat_confirmed(begun=11.0, now=13.5)
    assert trust.trusted(14.9)
    assert not trust.trusted(15.0)


def test_an_old_beat_takes_nothing_away() -> None:
    trust = trusted_since(10.0)
    trust.beat_confirmed(begun=9.0, now=11.0)
    assert trust.trusted(13.9)


def test_a_beat_confirmed_after_the_lapse_counts_for_nothing() -> None:
    """It was written in time but answered too late: others may have decided in between."""
    trust = trusted_since(10.0)
    trust.beat_confirmed(begun=13.0, now=14.0)
    assert not trust.trusted(14.0)
    trust.beat_confirmed(begun=14.5, now=14.6)
    assert not trust.trusted(14.6)


def test_a_renewal_clears_the_lapse_with_trust_of_its_own() -> None:
    """Not the trust that beats confirmed during the lapse would have given."""
    trust = trusted_since(10.0)
    trust.beat_confirmed(begun=20.0, now=20.1)
    trust.renewal_answered(APPLIED, begun=17.0)
    assert trust.trusted(20.9)
    assert not trust.trusted(21.0)
    assert trust.renewals == 2


def test_an_unknown_renewal_must_be_read_and_its_own_value_is_no_answer() -> None:
    trust = trusted_since(10.0)
    trust.renewal_answered(Unknown("timed out"), begun=20.0)
    assert trust.renewals is None
    trust.record_read(record(2))
    assert not trust.trusted(20.5)
    assert trust.renewals == 2


def test_a_renewal_after_an_unknown_answer_needs_a_read() -> None:
    trust = trusted_since(10.0)
    trust.renewal_answered(Unknown("timed out"), begun=20.0)
    with pytest.raises(ValueError, match="cannot have been begun"):
        trust.renewal_answered(APPLIED, begun=21.0)


def test_a_rejected_renewal_gives_nothing_even_if_it_shows_the_value_wanted() -> None:
    trust = trusted_since(10.0)
    trust.renewal_answered(Rejected(record(2)), begun=20.0)
    assert not trust.trusted(20.1)
    assert trust.renewals == 2


@pytest.mark.parametrize("current", [record(1, alive=False), None])
def test_an_incarnation_whose_record_says_dead_or_is_gone_is_over(current: IncarnationRecord | None) -> None:
    rejected, read = trusted_since(10.0), trusted_since(10.0)
    rejected.renewal_answered(Rejected(current), begun=20.0)
    read.record_read(current)
    for trust in (rejected, read):
        assert trust.over
        assert not trust.trusted(11.0)
        trust.renewal_answered(APPLIED, begun=20.5) if trust.renewals is not None else None
        assert not trust.trusted(20.6)
