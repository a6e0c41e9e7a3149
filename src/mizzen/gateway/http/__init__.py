"""HTTP in front of inference: the fast protocol, the ASGI app for everything else, and read-only routes.

What a request means is in `gateway.inference`; nothing here decides where a request goes.
"""
