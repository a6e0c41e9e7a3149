"""Access control: pure decisions, each with its reason, and the formats that the plane and the gateways share.

Tokens, HTTP and stores do not belong here; `server/auth` authenticates the callers of the control API.
"""
