"""How many prepared statements Cassandra executed, from its own count."""

from tests.support.cassandra import session_of
from tests.support.processes import Deployment

_QUERY = "SELECT name, value FROM system_views.cql_metrics"


def requests_so_far(deployment: Deployment) -> int:
    """Since its start, everybody's. Conditional batches count once."""
    with session_of(deployment.storage.contact_points[0], deployment.storage.port) as session:
        rows = session.execute(_QUERY)
        return round(sum(float(row.value) for row in rows if row.name == "prepared_statements_executed"))
