"""The data plane: HTTP and gRPC in, frames to runtimes, responses out.

`process` assembles one gateway process. `http` and `grpc` read requests; `inference` is a request whichever protocol
carried it; `queueing` has the queues of served versions and the connections to their replicas. `table_loader` turns the
Table into the `route_table`. `.importlinter` has the order in which these groups may import each other.

Not here: decisions about what is served (the plane makes them, and writes the Table), tensor values (they pass through
unread), pydantic, stores, kinds, settings. The hot path runs on callbacks: no task, coroutine or timer per request.
"""
