"""The lines that a page shows of its requests."""

from scheduler_service.console.operations import Asked
from scheduler_service.console.samples import samples_of


def test_a_name_that_is_repeated_keeps_all_its_values() -> None:
    path = "/v1/clients/shop/schedules:count?state=scheduled&state=retrying&label=x"
    [sample] = samples_of([Asked(method="GET", path=path)])
    assert sample.python == "api.client('shop').schedules.count(state=['scheduled', 'retrying'], label='x')"
    assert sample.typescript is not None
    assert 'state: ["scheduled", "retrying"]' in sample.typescript
    assert path in sample.curl
