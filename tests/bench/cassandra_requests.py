"""Reads how many prepared statements Cassandra has executed, by its own count."""

from tests.support.cassandra import session_of
from tests.support.processes import Deployment

_QUERY = "SELECT name, value FROM system_views.cql_metrics"


def requests_so_far(deployment: Deployment) -> int:
    """Requests of all callers since the server's start. A conditional batch counts once."""
    with session_of(deployment.storage.contact_points[0], deployment.storage.port) as session:
        rows = session.execute(_QUERY)
        return round(sum(float(row.value) for row in rows if row.name == "prepared_statements_executed"))
