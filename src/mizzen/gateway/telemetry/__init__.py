"""Telemetry of a gateway: metrics, access log, traces.

Counting on the hot path must stay cheap; text is rendered only when a client scrapes.
"""
