"""Who may predict, how often and how much: authorization, rate limits, quotas, and records of refusals.

The files it reads are written by `controllers.access_publisher`.
"""
