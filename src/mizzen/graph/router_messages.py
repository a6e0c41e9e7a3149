"""What routers and merges are asked, and say, beside the message itself, where they are models that know only tensors.

One that declares an input `routable_nodes` or `pending_requests` gets it as a tensor of texts, or of one number. What a
router takes is its output `route`: names of nodes, `*` for all, none for none. Services have headers and parameters for
all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from mizzen.graph.messages import array_of
from mizzen.protocol import v2
from mizzen.protocol.frames import framing

Entries = list[v2.Entry]

ROUTE = "route"
"""The output that says which nodes a router takes."""
PENDING = "pending_requests"
_NUMBER = struct.Struct("<q")


def asking(entries: Entries, asks: Mapping[str, str], declared: Collection[str]) -> Entries:
    """With what is asked, as far as the model declares an input for it."""
    more = [_entry(name, text) for name, text in asks.items() if name in declared]
    return [*entries, *more] if more else entries


def without_route(entries: Entries) -> tuple[Entries, str | None]:
    """What a router gave, without which nodes it takes; None: it did not say. ValueError."""
    said = next((entry for entry in entries if entry[0] == ROUTE), None)
    if said is None:
        return entries, None
    if said[1] != "BYTES" and 0 not in said[2]:  # an empty list has no type that one could tell
        raise ValueError(f"output '{ROUTE}' must hold names of nodes, not {said[1]}")
    names = [
        name.decode(errors="replace") if isinstance(name, bytes) else name
        for name in array_of(said).reshape(-1).tolist()
    ]
    return [entry for entry in entries if entry is not said], ",".join(names)


def _entry(name: str, text: str) -> v2.Entry:
    if name == PENDING:
        return name, "INT64", [1], framing.RAW, memoryview(_NUMBER.pack(int(text)))
    names = text.split(",")
    return (
        name,
        "BYTES",
        [len(names)],
        framing.JSON,
        memoryview(v2.to_json(names)),
    )  # as text, which models get as `str`
