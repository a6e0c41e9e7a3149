"""The prediction cache: of equal requests only one reaches the model, whether the others come meanwhile or later.

`cached_queue` stands in front of a server's queue and decides. `keys` says which requests are equal, `entries` holds
answers within a byte limit, and `coalescing` has calls that several requests wait for. Entries are payloads as replicas
sent them: the request id and the name it came by are added for each caller.

Servers without a cache never run this code: their endpoints submit to the queue itself.
"""
