"""Access control for predictions: authorization, rate limits, quotas, and the log of refused requests.

`controllers.access_publisher` writes the files that are read here.
"""
