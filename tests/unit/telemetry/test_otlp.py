"""What is written by hand is what OpenTelemetry's own messages read, to the byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from mizzen.telemetry import otlp
from tests.support.collector import plain

texts = st.text(max_size=20)
values = texts | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
attributes = st.dictionaries(texts, values, max_size=4)
contexts = st.tuples(st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8))
moments = st.integers(0, 2**64 - 1)
spans = st.builds(
    lambda context, *rest: otlp.Span(*context, *rest),
    contexts, st.just(b"") | st.binary(min_size=8, max_size=8), texts, moments, moments,
    st.sampled_from((otlp.SERVER, otlp.INTERNAL)), texts, st.booleans(), attributes, st.lists(contexts, max_size=3),
    st.none() | texts,
)  # fmt: skip


@given(attributes, st.lists(spans, max_size=3))
def test_what_is_written_is_read(resource: otlp.Attributes, told: list[otlp.Span]) -> None:
    data = otlp.encode_request(resource, ("mizzen", "1"), told)
    read = ExportTraceServiceRequest.FromString(data)
    (of,) = read.resource_spans
    assert plain(of.resource.attributes) == resource
    (scope,) = of.scope_spans
    assert (scope.scope.name, scope.scope.version) == ("mizzen", "1")
    for span, seen in zip(told, scope.spans, strict=True):
        assert (seen.trace_id, seen.span_id, seen.parent_span_id) == (span.trace, span.id, span.parent)
        assert (seen.name, seen.kind, seen.trace_state) == (span.name, span.kind, span.state)
        assert (seen.start_time_unix_nano, seen.end_time_unix_nano) == (span.start, span.end)
        assert plain(seen.attributes) == dict(span.attributes)
        assert [(link.trace_id, link.span_id) for link in seen.links] == list(span.links)
        assert (seen.status.code, seen.status.message) == (0 if span.error is None else 2, span.error or "")
        assert seen.flags == 0x101 | (0x200 if span.remote else 0)


def test_long_texts_are_not_kept() -> None:
    otlp.encode_request({"a": "short"}, ("mizzen", "1"), [])
    before = otlp._encode_cached_attribute.cache_info().currsize
    otlp.encode_request({"a": "x" * 1000}, ("mizzen", "1"), [])
    assert otlp._encode_cached_attribute.cache_info().currsize == before
