"""The command line `mizzen`: a client of the two APIs and, for `up`, `down` and `status`, of the supervisor.

Here: one module per group of commands, and what they print (`output`). Commands import what they need when they run:
`mizzen --help` must not wait for numpy.
Not here: decisions. What a command does is done by the SDK, the plane or the supervisor.
"""
