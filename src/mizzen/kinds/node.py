"""Node: a machine of the plane, in the cloud or at the edge. Specs select nodes by their labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts import uniqueness
from mizzen.kinds.schema.findings import Context, Finding, Warn, suggestion
from mizzen.kinds.schema.resource import Spec, Status
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.serving import Layer
from mizzen.kinds.text.patterns import matching
from mizzen.kinds.text.quantities import Amount, Bytes

CAPABILITIES = ("containers", "gpus")


NodeAddress = Annotated[
    str,
    matching(r"(\[[0-9a-fA-F:.]+\]|[-._A-Za-z0-9]+)(:[0-9]{1,5})?", "an address; expected host or host:port"),
]


class NodeSpec(Spec):
    layer: Layer = Field(description="`cloud` or `edge`.")
    address: NodeAddress | None = Field(None, description="The address at which it is reachable: host or host:port.")
    capabilities: Annotated[tuple[str, ...], MaxItems(256)] = Field(
        (), description="What its engine supports: `containers`, `gpus`."
    )
    cpu: Amount | None = Field(None, description="The CPUs it offers. Default: all.")
    memory: Bytes | None = Field(None, description="The memory it offers, such as `16Gi`. Default: all.")
    gpus: int = Field(0, ge=0, le=64, description="The number of GPUs it offers.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        repeated = dict(uniqueness.repeats(self.capabilities))
        for index, capability in enumerate(self.capabilities):
            place = f"{at}.capabilities[{index}]"
            if index in repeated:
                yield Fault(place, f"'{capability}' is given twice")
            elif capability not in CAPABILITIES:
                yield Warn(place, f"unknown capability '{capability}'; {suggestion(capability, CAPABILITIES, 'known')}")
        if self.gpus and "gpus" not in self.capabilities and context.is_complete(f"{at}.capabilities"):
            yield Warn(f"{at}.gpus", "not used, because capabilities do not include 'gpus'")


class NodeStatus(Status):
    """Conditions: `Accepted`, `Ready` (it sent a heartbeat recently), `DiskRoom` (its disk has room)."""

    last_heartbeat: str | None = Field(default=None, description="The time of its last heartbeat, in UTC.")
