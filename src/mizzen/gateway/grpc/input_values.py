"""The values of a request's inputs as bytes, wherever in the message they came."""

from __future__ import annotations

import asyncio

from mizzen.errors import TooLarge
from mizzen.gateway.grpc.call_head import Unfit
from mizzen.gateway.grpc.wire import typed_contents
from mizzen.gateway.grpc.wire.infer_request import Described
from mizzen.gateway.inference.calls import UNAVAILABLE
from mizzen.gateway.request.body_budget import CROWDED, Share
from mizzen.gateway.route_table import Endpoint


async def made(endpoint: Endpoint, described: Described, came: int, share: Share, most: int) -> list[memoryview]:
    """The values of all inputs as bytes, of a message of `came`. ValueError, TooLarge, Unfit."""
    assert described.request is not None
    signature = endpoint.queues[0].signature if endpoint.queues else None
    if signature is not None:  # first, for it is the cheapest to find out
        signature.check(described.request.inputs, described.request.outputs)
    datas: list[memoryview] = []
    size = 0
    for place, pieces in enumerate(described.contents or ()):
        work = typed_contents.steps(pieces, described.request.inputs[place].datatype, place, most - size)
        try:
            while True:
                if not share.grow(came + size + next(work)):
                    raise Unfit(UNAVAILABLE, CROWDED, 1)
                await asyncio.sleep(0)
        except StopIteration as done:
            datas.append(done.value)
            size += datas[-1].nbytes
        except TooLarge as error:
            raise TooLarge(f"inputs[{place}].contents: with it they come to more than {most} bytes") from error
    return datas


def given(described: Described, raw: list[memoryview]) -> list[memoryview]:
    """Of each input. ValueError."""
    assert described.request is not None
    inputs, typed = described.request.inputs, described.contents
    if typed is None and not raw:
        raise ValueError("inputs[0].contents: is missing, and so are raw_input_contents")
    if typed is None:
        raise ValueError(f"raw_input_contents: {len(raw)} of them for {len(inputs)} inputs")
    if raw:
        place = next(place for place, pieces in enumerate(typed) if pieces)
        raise ValueError(f"inputs[{place}].contents: is there beside raw_input_contents")
    return [
        typed_contents.at_once(typed_contents.steps(pieces, tensor.datatype, place))
        for place, (pieces, tensor) in enumerate(zip(typed, inputs, strict=True))
    ]
