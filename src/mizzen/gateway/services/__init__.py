"""Services: what a graph calls over HTTP/1.1, be it a container of its own or somewhere else.

`pool` takes calls and sees to their end, as a queue does for replicas; `peers` are the addresses it may ask, and
`connections` what is spoken to them. `hosts` finds and reaches addresses, `requests` writes the head of a request,
`outcomes` says what an answer comes to. How tensors are put is in `ask_v2`, `ask_v1` and `ask_seldon`, by what is in
`values`.

Not here: which node calls what, and what becomes of its answer (the graph's run decides), nor who is allowed to. No
redirect is followed, and nothing that proves who somebody is goes out: neither ours nor our callers'.

A call costs callbacks only. Tasks are made for connections, which are kept, and for looking up names.
"""
