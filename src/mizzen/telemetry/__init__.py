"""Spans on their way out: what they look like in OTLP (`otlp`), where they go (`destination`) and how (`exporter`).

Written by hand, because it is little: OpenTelemetry's SDK costs a gateway 20 MB and each span many times what its
encoding takes here. What a span is about is its maker's business: the gateway's are in
`gateway/telemetry/trace_recording.py`.
"""
