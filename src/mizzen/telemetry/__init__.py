"""Export of spans: their OTLP encoding (`otlp`), where they go (`destination`) and how they are sent (`exporter`).

Hand-written, because it is little code: OpenTelemetry's SDK costs a gateway 20 MB, and each span many times what the
encoding takes here. The content of spans is up to their producers: `gateway/telemetry/trace_recording.py` for gateways.
"""
