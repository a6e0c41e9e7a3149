"""The HTTP server of plane and gateway: uvicorn on sockets that the caller opened.

Clients that open connections and send nothing, or only part of a request, cannot block either process: such connections
are closed (`http_connection`), and their number is limited so that the process can still open files
(`connection_limits`). `free_ports` finds out whether a port can be listened on.
"""
