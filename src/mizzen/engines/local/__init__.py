"""The engine of this machine. Each replica is a process under the supervisor, with its own unix socket; or, if the
Workload wants HTTP, with its own port. A task is a process that ends.

Here: the command and environment of a replica, its readiness, its output. Not here: starting and restarting processes,
which the supervisor does, also while no engine runs.

`engine` the Engine itself · `process_specs` a Workload as supervised processes and back · `observation` their current
state · `frame_probe` readiness, `http_probe` that of HTTP servers · `ports`, `http_env` the ports and variables of HTTP
servers · `reloads` new files without a restart · `prepare` environments and secrets · `training_tasks` the runners of
training jobs, `runner_specs` a task as a supervised process and back · `logs`.
"""
