"""MLGraph -> the spec that gateways execute, and a Workload for each container that it calls.

The first accepted spec serves at once; a request that reaches an unavailable node gets an error. A later spec takes
over as a whole when all its nodes are ready; until then the previous spec keeps serving with all its Workloads. A spec
that is not accepted changes nothing. `NodesReady` and `nodes` are about the latest spec, `Ready` and `url` about the
serving one.

`controller` the controller itself · `facts` the input of its decisions · `spec_switch` from one spec to the next ·
`callees` objects that are called by name, and whether they are available · `container_workloads` the Workloads of a
spec · `metadata_propagation` labels and annotations of the graph on them · `node_status` the state of each node ·
`service_probes` external services, probed in the background by `http_check`.
"""
