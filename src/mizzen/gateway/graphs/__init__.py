"""Graphs as a gateway runs them: what their nodes call, and requests on their way through.

`binding` makes a Plan's graph ready: `targets` is what nodes call, `straight` the shapes that need no walk, `walk` all
others, by `mizzen.graph.executor`. `tally` counts what happens at nodes. Sockets, queues and rights are not here.
"""
