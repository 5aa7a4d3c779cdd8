"""Callbacks that both SDKs judge alike: `sdk/typescript/test/webhooks.test.ts` reads the same file.

`error` is the class that is raised, or `invalid` where a secret or an option is not one; `verified` has what is not
absent. `fence` is written as text, since not every reader of JSON keeps such a number.
"""

import base64
import dataclasses
import json
from typing import Any

import pytest

from minutehand import webhooks
from tests.architecture.sources import ROOT

VECTORS: list[dict[str, Any]] = json.loads((ROOT / "sdk" / "webhook_vectors.json").read_text())


def judged(vector: dict[str, Any]) -> webhooks.VerifiedCallback:
    body = base64.b64decode(vector["body_base64"]) if vector["body"] is None else vector["body"].encode()
    tolerance = vector.get("tolerance_seconds", 300)
    return webhooks.verify(body, vector["headers"], vector["secrets"], now=vector["now"], tolerance_seconds=tolerance)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_each_is_judged_as_it_says(vector: dict[str, Any]) -> None:
    if (error := vector.get("error")) is not None:
        kind = ValueError if error == "invalid" else getattr(webhooks, error)
        with pytest.raises(kind):
            judged(vector)
        return
    given = {name: value for name, value in dataclasses.asdict(judged(vector)).items() if value not in (None, False)}
    if "fence" in given:
        given["fence"] = str(given["fence"])
    assert given == vector["verified"]
