"""Graph execution in a gateway: the targets that nodes call, and the requests that go through them.

`bound_graph` binds a Plan's graph to its targets (`targets`). `fast_paths` and `ensemble` run simple shapes, and
`execution` runs all others with `mizzen.graph.executor`. `node_stats` counts what happens at nodes. Sockets, queues and
authorization are not here.
"""
