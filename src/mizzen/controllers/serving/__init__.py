"""InferenceModel -> the Workload that serves its version.

A change that needs new processes, such as another version or another environment, gets a second Workload. The serving
Workload stays unchanged until all replicas of the new one are ready. It ends after the switch, when no gateway routes
to it any more. A version that differs only in data is given to the serving Workload, whose processes reload it without
a restart; if they refuse, it gets its own Workload. A spec that is not accepted, cannot run here or cannot start
changes nothing: running replicas keep serving.

`Ready` is about the version in the spec; `servingVersion` and `url` are about the serving Workload, also during a short
outage. A version named by an alias, or as the current one, is resolved when the spec changes, and again later with
`followAlias`.

`controller` the controller itself · `facts` the input of its decisions · `version_resolution` which version the spec
means, and whether it can be served here · `checkpoint_choice` which checkpoint of it · `workload_switch` from one
Workload to the next · `replica_count` replicas that the load determines · `readiness` the condition Ready.
"""
