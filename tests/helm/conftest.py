"""The suite's Helm, and the chart rendered over every values file once."""

from collections.abc import Mapping

import pytest

from tests.helm.chart import VALUES_FILES, Chart, Document, chart_or_skip


@pytest.fixture(scope="session")
def chart(pytestconfig: pytest.Config) -> Chart:
    """The messages of a build bypass pytest's capture."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        return chart_or_skip()


@pytest.fixture(scope="session")
def rendered(chart: Chart) -> Mapping[str, list[Document]]:
    """The rendered documents by values file."""
    return {name: chart.render(name) for name in VALUES_FILES}


@pytest.fixture(params=VALUES_FILES)
def documents(request: pytest.FixtureRequest, rendered: Mapping[str, list[Document]]) -> list[Document]:
    """The documents of each values file in turn."""
    return rendered[request.param]
