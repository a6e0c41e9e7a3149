"""One module per framework: it turns the framework's files into a LoadedModel.

A module here imports its framework at the top and is itself imported only when that framework is used. Requests,
batches and sockets are handled elsewhere.
"""
