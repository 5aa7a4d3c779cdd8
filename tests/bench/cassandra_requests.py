"""How many prepared statements Cassandra executed, from its own count."""

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

from tests.support.processes import Deployment

_QUERY = "SELECT name, value FROM system_views.cql_metrics"


def requests_so_far(deployment: Deployment) -> int:
    """Since its start, everybody's. Conditional batches count once."""
    host, port = deployment.storage.contact_points[0], deployment.storage.port
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([host]))
    cluster = Cluster([host], port=port, protocol_version=5, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    try:
        rows = cluster.connect().execute(_QUERY)
        return round(sum(float(row.value) for row in rows if row.name == "prepared_statements_executed"))
    finally:
        cluster.shutdown()
