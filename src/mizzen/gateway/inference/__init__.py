"""One inference from decoded request to response, whichever protocol carried it.

Waiting for a replica is in `gateway.queueing`; HTTP and gRPC are in their own groups.
"""
