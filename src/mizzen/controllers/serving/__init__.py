"""InferenceModel -> the Workload that serves its version.

Whatever needs other processes, be it another version or the same with another environment, gets a Workload of its own
beside the one that serves, which stays as it is until all replicas of the new one answer, and ends after the switch,
when no gateway sends to it any more. A version that differs in data alone is given to the Workload that serves, where
its processes take it without a restart, and gets one of its own when they refuse. What cannot be accepted, or cannot
run here, or cannot start, changes nothing: whatever runs, runs on.

`Ready` speaks of the version asked for; `servingVersion` and `url` of what answers, also during a short loss. A version
that is meant through an alias, or as the current one, is looked up when the spec is new, and again with `followAlias`.

`controller` the controller itself · `facts` what it knows when it decides · `meaning` which version is meant, and
whether it can be served here · `choosing` which checkpoint of it · `switching` from one Workload to the next ·
`readiness` the condition Ready.
"""
