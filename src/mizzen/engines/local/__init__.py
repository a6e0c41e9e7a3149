"""The engine of this machine: each replica is a process under the supervisor, on a unix socket of its own; or, where
that is what the Workload asks for, on a port of its own, where it answers HTTP. A task is a process that ends.

Here: what a replica runs with, whether it is ready, what it printed. Not here: starting processes and restarting them,
which the supervisor does, also while no engine is there.

`engine` the Engine itself · `replicas` a Workload as supervised processes and back · `sight` what is seen of them ·
`probe` readiness, `http_probe` of what answers HTTP · `ports`, `answering` what such a one is given · `tasks` the
runners of job sets, `training` a task as such a process and back · `logs`.
"""
