"""MLGraph -> what answers for it: the spec that gateways go by, and a Workload for each container that it calls.

The first spec that is accepted answers at once, and requests that reach a node nobody answers for are told so. A later
one takes over, whole, when all its nodes are ready; until then the one before goes on, with all that it runs. What
cannot be accepted changes nothing. `NodesReady` and `nodes` speak of the spec that is asked for, `Ready` and `url` of
what answers.

`controller` the controller itself · `facts` what it knows when it decides · `switching` from one spec to the next ·
`neighbours` what is called by name, and whether that answers · `containers` the Workloads of a spec · `passing` labels
and annotations of the graph on them · `nodes` the state of each node · `probing` services of others, asked in the
background, by `asking`.
"""
