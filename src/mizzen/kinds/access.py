"""RoleBinding: grants subjects rights on a model, an alias or a namespace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts import uniqueness
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import NAME, Part, Spec, Status
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text.names import Name
from mizzen.kinds.text.versions import check_alias

Verb = Literal["read", "predict", "write", "admin"]

_SUBJECT = re.compile(r"\*|oidc:[^\s,]{1,256}|(?:group:)?[A-Za-z0-9](?:[-._@+A-Za-z0-9]{0,251}[A-Za-z0-9])?")


class BindingTarget(Part):
    """A model, one alias of a model, or the whole namespace."""

    model: Name | None = Field(None, description="The name of a Model, InferenceModel or MLGraph.")
    alias: str | None = Field(None, min_length=1, description="Only this alias of `model`.")
    namespace: str | None = Field(
        None, min_length=1, description="The binding's own namespace. Without `model`, the binding covers all of it."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.model is None and self.namespace is None and context.was_read(at, "model", "namespace"):
            own = context.namespace or "default"
            yield Fault(at, f"needs a model or a namespace; for this whole namespace write namespace: {own}")
        if self.alias is not None and self.model is None and context.was_read(at, "model"):
            yield Fault(f"{at}.alias", "needs model, the model that the alias belongs to")
        if self.alias is not None and (wrong := _alias_fault(self.alias)):
            yield Fault(f"{at}.alias", wrong)
        if self.namespace is None:
            return
        if not NAME.fullmatch(self.namespace):
            yield Fault(f"{at}.namespace", f"{self.namespace[:100]!r} is not a valid namespace name")
        elif context.namespace and self.namespace != context.namespace:
            yield Fault(
                f"{at}.namespace", f"must be '{context.namespace}', since a binding applies to its own namespace only"
            )


def _alias_fault(alias: str) -> str:
    try:
        check_alias(alias)
    except ValueError as error:
        return str(error)
    return ""


class RoleBindingSpec(Spec):
    """`write` includes `read`; `admin` includes all others and may grant them; `predict` includes nothing else.

    Fields that decide which code runs need `admin`: variables, images, commands, pod templates, archives, hooks, charts
    and modules. To set or change such a field, a user needs `admin` on the model, or on the namespace if there is no
    model. To name a secret, a user needs `write` on secrets.
    """

    subjects: Annotated[tuple[str, ...], MaxItems(1000)] = Field(
        description="The principals that get the rights: names, `group:<name>`, or `*` for all with a valid token."
    )
    verbs: Annotated[tuple[Verb, ...], MaxItems(256)] = Field(description="The rights: read, predict, write, admin.")
    target: BindingTarget = Field(description="What the rights apply to: `{model}`, `{model, alias}` or `{namespace}`.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        for field, words in (("subjects", self.subjects), ("verbs", self.verbs)):
            if not words:
                yield Fault(f"{at}.{field}", "must have at least 1 entry")
            yield from uniqueness.word_faults(words, f"{at}.{field}")
        for index, subject in enumerate(self.subjects):
            if not _SUBJECT.fullmatch(subject):
                yield Fault(
                    f"{at}.subjects[{index}]",
                    f"{subject[:100]!r} is not a valid subject; expected a principal's name, group:<name> or '*'",
                )

    @property
    def model(self) -> str:
        """Empty means the whole namespace."""
        return self.target.model or ""

    @property
    def alias(self) -> str:
        """Empty means any version."""
        return self.target.alias or ""


class RoleBindingStatus(Status):
    """Condition `Accepted`."""
