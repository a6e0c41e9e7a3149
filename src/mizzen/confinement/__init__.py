"""Confinement of processes that run users' code: what they may read, write, call and signal, and what is left of them.

`launcher` confines the process that calls it: a child between fork and exec, or a forked copy that never calls exec.
`machine` says which mechanisms this machine offers. Standard library only: the supervisor, the runner and the builder
of environments use it.
"""
