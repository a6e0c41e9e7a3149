"""The `mizzen` command line: a client of the two APIs and, for `up`, `down` and `status`, of the supervisor.

Here: one module per group of commands, and their output (`output`). Commands import what they need when they run, so
that `mizzen --help` does not wait for numpy.
Not here: decisions. The SDK, the plane or the supervisor does the work of a command.
"""
