"""The values of a request's inputs as raw bytes, from whichever part of the message holds them."""

from __future__ import annotations

import asyncio

from mizzen.errors import TooLarge
from mizzen.gateway.grpc.call_head import RpcError
from mizzen.gateway.grpc.wire import typed_contents
from mizzen.gateway.grpc.wire.infer_request import RequestDescription
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.queueing.call import UNAVAILABLE
from mizzen.gateway.request.body_budget import OVER_BUDGET, BodyReservation


async def convert_inputs(
    endpoint: Endpoint, described: RequestDescription, message_bytes: int, share: BodyReservation, max_bytes: int
) -> list[memoryview]:
    """Convert the values of all inputs, yielding to other tasks. Raises ValueError, TooLarge, RpcError."""
    assert described.request is not None
    signature = endpoint.queues[0].signature if endpoint.queues else None
    if signature is not None:  # first, because it is the cheapest check
        signature.check(described.request.inputs, described.request.outputs)
    datas: list[memoryview] = []
    size = 0
    for place, pieces in enumerate(described.contents or ()):
        work = typed_contents.convert_in_steps(
            pieces, described.request.inputs[place].datatype, place, max_bytes - size
        )
        try:
            while True:
                if not share.grow(message_bytes + size + next(work)):
                    raise RpcError(UNAVAILABLE, OVER_BUDGET, 1)
                await asyncio.sleep(0)
        except StopIteration as done:
            datas.append(done.value)
            size += datas[-1].nbytes
        except TooLarge as error:
            raise TooLarge(f"inputs[{place}].contents: the inputs exceed {max_bytes} bytes in total") from error
    return datas


def input_data_of(described: RequestDescription, raw: list[memoryview]) -> list[memoryview]:
    """Return the data of each input. Raises ValueError."""
    assert described.request is not None
    inputs, typed = described.request.inputs, described.contents
    if typed is None and not raw:
        raise ValueError("inputs[0].contents and raw_input_contents are both missing")
    if typed is None:
        raise ValueError(f"raw_input_contents: has {len(raw)} entries for {len(inputs)} inputs")
    if raw:
        place = next(place for place, pieces in enumerate(typed) if pieces)
        raise ValueError(f"inputs[{place}].contents: must be empty if there are raw_input_contents")
    return [
        typed_contents.run_to_end(typed_contents.convert_in_steps(pieces, tensor.datatype, place))
        for place, (pieces, tensor) in enumerate(zip(typed, inputs, strict=True))
    ]
