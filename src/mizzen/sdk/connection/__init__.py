"""Finding, starting, stopping and reaching a plane: locate, transport, TLS trust, warnings.

Nothing here knows what a plane offers.
"""
