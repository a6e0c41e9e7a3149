"""Extra tensors for routers and merges that are models; services use headers and parameters instead.

A model that declares an input `routable_nodes` or `pending_requests` gets it as a tensor of strings, or of one number.
A router returns its choice as the output `route`: names of nodes, `*` for all nodes, or nothing for none.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from mizzen.graph.messages import array_of, require_few
from mizzen.protocol import v2
from mizzen.protocol.frames import framing

Entries = list[v2.Entry]

ROUTE = "route"
"""The output in which a router names the nodes it chose."""
PENDING = "pending_requests"
_INT64 = struct.Struct("<q")


def add_declared_inputs(entries: Entries, extra_inputs: Mapping[str, str], declared: Collection[str]) -> Entries:
    """Append those of the extra inputs that the model declares."""
    more = [_entry(name, text) for name, text in extra_inputs.items() if name in declared]
    return [*entries, *more] if more else entries


def split_route(entries: Entries) -> tuple[Entries, str | None]:
    """Split a router's outputs into the message and the chosen route, None if there is none. Raises ValueError."""
    choice = next((entry for entry in entries if entry[0] == ROUTE), None)
    if choice is None:
        return entries, None
    if choice[1] != "BYTES" and 0 not in choice[2]:  # an empty list may have any type
        raise ValueError(f"output '{ROUTE}' must hold node names, not {choice[1]}")
    require_few([choice])
    names = [
        name.decode(errors="replace") if isinstance(name, bytes) else name
        for name in array_of(choice).reshape(-1).tolist()
    ]
    return [entry for entry in entries if entry is not choice], ",".join(names)


def _entry(name: str, text: str) -> v2.Entry:
    if name == PENDING:
        return name, "INT64", [1], framing.RAW, memoryview(_INT64.pack(int(text)))
    names = text.split(",")
    return (
        name,
        "BYTES",
        [len(names)],
        framing.JSON,
        memoryview(v2.to_json(names)),
    )  # as JSON, so that models get `str`
