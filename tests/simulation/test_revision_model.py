"""Updates in place hold in every order of their steps; without any one of their rules they do not."""

import pytest

from tests.models.revisions import Model

VERBS = [("update", "update"), ("update", "requeue"), ("update", "reschedule")]
LOST, REFUSED = "an update is lost", "a refused update is called"
PLANTS = {
    "unrechecked": (("update",), LOST),
    "unread": (("update",), LOST),
    "kept": (("update",), LOST),
    "silent": (("update",), LOST),
    "unseen": (("update",), LOST),
    "unversioned": (("update",), LOST),
    "frozenless": (("update", "requeue"), LOST),
    "unmerged": (("update", "update"), LOST),
    "requeued": (("update", "requeue"), LOST),
    "rescheduled": (("update", "reschedule"), LOST),
    "renamed": (("update", "reschedule", "reschedule"), LOST),
    "own": (("update", "requeue"), LOST),
    "blind": (("update",), LOST),
    "unrecognised": (("update",), REFUSED),
    "last": (("update", "update"), REFUSED),
}


@pytest.mark.parametrize("verbs", VERBS, ids=" ".join)
def test_what_is_called_has_all_updates_that_were_accepted(verbs: tuple[str, ...]) -> None:
    states, violation = Model(verbs).walk()
    assert violation is None
    assert states > 20_000


@pytest.mark.parametrize("plant", PLANTS)
def test_each_rule_is_needed(plant: str) -> None:
    verbs, wrong = PLANTS[plant]
    _, violation = Model(verbs, [plant]).walk()
    assert violation is not None
    assert violation[-1] == wrong
