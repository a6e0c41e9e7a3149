"""One call of gRPC, by the client that everybody uses."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import grpc

from bench.peers import questions

PREFIX_BYTES = 5
_AS_HTTP = {
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNKNOWN: 500,
}


def ask(url: str, question: questions.Question) -> tuple[int, bytes, Mapping[str, str]]:
    """As if it were HTTP: the code that stands for its status."""
    parts = urlsplit(url)
    with grpc.insecure_channel(parts.netloc, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        call = channel.unary_unary(parts.path)
        try:
            body: bytes = call(question.body[PREFIX_BYTES:], timeout=30)
        except grpc.RpcError as error:
            return _AS_HTTP.get(error.code(), 400), str(error.details()).encode(), {}
    return 200, body, {"Content-Type": questions.GRPC}
