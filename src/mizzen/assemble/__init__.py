"""Settings -> a running plane or gateway. The only package that names concrete classes.

`starting` is what `mizzen up` calls: it writes down what to run and starts the supervisor. That then runs this package
as `python -m mizzen.assemble plane` and `… gateway`, with the settings and the listening sockets in the environment.
Each has a module of its own, because a gateway must not pay for a plane.
"""
