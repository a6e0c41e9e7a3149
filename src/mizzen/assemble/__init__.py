"""Settings -> a running plane or gateway. The only package that names concrete classes.

`mizzen up` calls `boot`, which writes the processes to run and starts the supervisor. The supervisor then runs this
package as `python -m mizzen.assemble plane` and `… gateway`, with the settings and the listening sockets in the
environment. Each has its own module, so that a gateway does not import the plane's code.
"""
