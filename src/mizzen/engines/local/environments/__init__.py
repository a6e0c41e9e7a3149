"""Python environments of versions: the required packages, installed once for all versions that require the same.

Here: the key and the paths of an environment, its build, the workloads that want it, and its removal. Not here: the
code that runs in it, which is in `runtime/`.

`lifecycle` for the engine: whether one is complete, and how far its build is · `spec` its requirements, key and paths ·
`build` the process that builds one, with `installers` (uv or pip), `interpreters` (of this machine) and `build_output`
(progress and errors) · `runtime_bundle` the runtime, laid out for other interpreters than ours.
"""
