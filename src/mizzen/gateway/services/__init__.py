"""Services: what a graph calls over HTTP/1.1, in a container of its own or elsewhere.

`pool` takes calls and ends them, as a queue does for replicas. `endpoints` has the addresses of a service and
`http_connection` the connections to them; `address` resolves names and connects. `requests` writes the head of a
request, and `response_mapping` turns an answer into a result. `v2`, `v1` and `seldon` encode and decode tensors, with
`tensor_values`.

Not here: which node calls which service, what happens with its answer (`graphs` decides), and authorization. Redirects
are never followed. Credentials never leave: neither ours nor those of callers.

A call costs callbacks only. Tasks are created for connections, which are reused, and for name lookups.
"""
