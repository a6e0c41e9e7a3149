"""One module per framework: how its files become a LoadedModel.

A module here imports its framework at the top and is itself imported only when that framework is asked for.
Not here: requests, batches, sockets.
"""
