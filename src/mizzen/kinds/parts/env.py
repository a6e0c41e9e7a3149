"""Environment variables: a value, or a reference to a secret. A spec never contains the value of a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from mizzen.kinds.parts import one_of
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.text.names import Name
from mizzen.kinds.text.patterns import matching

OWN_VARIABLES = frozenset(
    {
        "MIZZEN_SOCKET", "MIZZEN_ARTIFACTS", "MIZZEN_ARTIFACTS_DIGEST", "MIZZEN_TERMINATION_LOG", "MIZZEN_DATA_DIR",
        "MIZZEN_DATASET_DIR", "MIZZEN_PROCESS_KEY", "MIZZEN_PROCESS_RUN", "MIZZEN_RUN_DIR", "MIZZEN_LISTENERS",
        "MIZZEN_SETTINGS", "MIZZEN_GPU_HOLDER", "MIZZEN_GPU_MEMORY", "MIZZEN_GPU_MEMORY_SHARE",
    }
)  # fmt: skip
"""Set by Mizzen for the processes it starts; specs must not set them."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(
            f"{name[:100]!r} is not a variable name; expected letters, digits and '_', not starting with a digit"
        )
    if name in OWN_VARIABLES:
        raise ValueError(f"'{name}' is set by Mizzen itself")
    return name


VariableName = Annotated[str, AfterValidator(_variable)]
SecretKey = Annotated[
    str,
    matching(r"[-._A-Za-z0-9]{1,253}", "a secret key; expected letters, digits, '-', '_' and '.', at most 253"),
]


class SecretKeyRef(Part):
    """One value of a secret in the object's own namespace."""

    name: Name = Field(description="The name of the secret, as set by `mizzen secret set`.")
    key: SecretKey = Field(description="The key of the value in the secret.")


class ValueFrom(Part):
    secret_key_ref: SecretKeyRef = Field(description="A reference to the value of a secret.")


class EnvVar(Part):
    name: VariableName = Field(description="The name of the variable.")
    value: str | None = Field(None, description="The value. It is visible to everyone who may read the object.")
    value_from: ValueFrom | None = Field(None, description="Where to take the value from, in place of `value`.")

    @property
    def secret(self) -> SecretKeyRef | None:
        return self.value_from.secret_key_ref if self.value_from else None

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from one_of.exactly_one(self, ("value", "value_from"), at, context)


def plain_values(variables: Iterable[EnvVar]) -> dict[str, str]:
    return {variable.name: variable.value for variable in variables if variable.value is not None}


def secret_values(variables: Iterable[EnvVar]) -> dict[str, SecretKeyRef]:
    return {variable.name: variable.secret for variable in variables if variable.secret}
