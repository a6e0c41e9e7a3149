"""The `mizzen` command line: a client of the two APIs and, for `up`, `down` and `status`, of the supervisor.

Here: one module per group of commands; `session` connects a command to a plane, `output` prints results, `parameters`
and `option_bundles` declare arguments and options. Commands import what they need when they run, so that
`mizzen --help` does not wait for numpy.
Not here: decisions. The SDK, the plane or the supervisor does the work of a command.
"""
