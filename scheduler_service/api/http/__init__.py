"""HTTP for all resources of the API: connections, time-outs, routes, keys, bodies, query strings."""
