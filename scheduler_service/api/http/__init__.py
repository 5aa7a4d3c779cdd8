"""HTTP as the API speaks it, whatever the resource: connections, time-outs, routes, keys, bodies, query strings."""
