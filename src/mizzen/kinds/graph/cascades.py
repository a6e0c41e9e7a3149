"""Cascades, or joint inference: a small edge model, a large cloud model, and a rule that finds hard examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, FiniteFloat

from mizzen.errors import Fault
from mizzen.kinds.schema.findings import Context, Finding, suggestion
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import MaxItems

RULES: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        "Threshold": {"threshold": 0.5},
        "IBT": {"threshold_img": 0.5, "threshold_box": 0.5},
        "CrossEntropy": {"threshold_cross_entropy": 0.5},
        "Random": {"random_ratio": 0.3},
        "Confidence": {"threshold": 0.5},
        "CloudOnly": {},
        "EdgeOnly": {},
    }
)
"""Each rule with its parameters and their defaults; all values are in [0, 1]."""


def _as_map(value: Any) -> Any:
    """Sedna's list of {key, value}, with texts as values, as a map."""
    if not isinstance(value, list | tuple):
        return {} if value is None else value
    found: dict[str, float] = {}
    for item in value:
        if not isinstance(item, Mapping) or set(item) != {"key", "value"} or not isinstance(item["key"], str):
            raise ValueError("each item must have a key and a value")
        if item["key"] in found:
            raise ValueError(f"a second '{item['key']}'")
        found[item["key"]] = _number(item["key"], item["value"])
    return found


def _number(key: str, value: Any) -> float:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise ValueError(f"'{key}' must be a number")


class HardExample(Part):
    """The rule that finds hard examples."""

    name: str = Field(description=f"One of {', '.join(RULES)}.")
    parameters: Annotated[dict[str, FiniteFloat], BeforeValidator(_as_map), MaxItems(256)] = Field(
        default_factory=dict, description="Parameters of the rule, as a map or as a list of `{key, value}`."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        known = RULES.get(self.name)
        if known is None:
            yield Fault(f"{at}.name", f"no rule '{self.name}'; {suggestion(self.name, tuple(RULES), 'rules')}")
            return
        for name, value in self.parameters.items():
            if name not in known:
                possible = suggestion(name, tuple(known), f"parameters of {self.name}")
                yield Fault(f"{at}.parameters", f"unknown parameter '{name}'; {possible}")
            elif not 0 <= value <= 1:
                yield Fault(f"{at}.parameters.{name}", f"must be between 0 and 1, not {value:g}")


class Cascade(Part):
    """Call the edge model, and the cloud model for the examples that the rule finds hard."""

    edge: str = Field(description="The child that runs at the edge.")
    cloud: str = Field(description="The child that runs in the cloud.")
    hard_example: HardExample = Field(description="The rule that finds hard examples.")
    mode: Literal["inference-then-mining", "mining-then-inference"] = Field(
        "inference-then-mining",
        description="`inference-then-mining`: the rule judges the output of the edge model; `mining-then-inference`: "
        "it judges the input, before either model runs.",
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.edge and self.edge == self.cloud:
            yield Fault(f"{at}.cloud", f"'{self.cloud}' is also the edge; name two different children")
