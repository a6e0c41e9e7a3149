"""Who may do what.

Here: pure decisions, each with its reason. Not here: tokens, HTTP, stores; `server/auth/authorization.py` finds out
who asks.
"""
