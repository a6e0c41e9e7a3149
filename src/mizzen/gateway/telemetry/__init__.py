"""What a gateway reports: metrics, access log, traces.

Counting on the hot path must stay cheap; rendering happens only when somebody scrapes.
"""
