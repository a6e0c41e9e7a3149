"""RoleBinding: who may read, predict, write or administer what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts import one_of
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import NAME, Part, Spec, Status
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.text.names import Name
from mizzen.kinds.text.versions import checked_alias

Verb = Literal["read", "predict", "write", "admin"]

_SUBJECT = re.compile(r"\*|oidc:[^\s,]{1,256}|(?:group:)?[A-Za-z0-9](?:[-._@+A-Za-z0-9]{0,251}[A-Za-z0-9])?")


class BindingTarget(Part):
    """A model, one alias of a model, or the whole namespace."""

    model: Name | None = Field(None, description="A callable name: a model, InferenceModel or MLGraph.")
    alias: str | None = Field(None, min_length=1, description="Only this alias of `model`.")
    namespace: str | None = Field(
        None, min_length=1, description="The binding's own namespace: all of it, if no model is given."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.model is None and self.namespace is None and context.read(at, "model", "namespace"):
            own = context.namespace or "default"
            yield Fault(at, f"needs a model or a namespace; for all of this one write namespace: {own}")
        if self.alias is not None and self.model is None and context.read(at, "model"):
            yield Fault(f"{at}.alias", "needs the model that it is an alias of")
        if self.alias is not None and (wrong := _alias_fault(self.alias)):
            yield Fault(f"{at}.alias", wrong)
        if self.namespace is None:
            return
        if not NAME.fullmatch(self.namespace):
            yield Fault(f"{at}.namespace", f"{self.namespace[:100]!r} is not a name of a namespace")
        elif context.namespace and self.namespace != context.namespace:
            yield Fault(
                f"{at}.namespace", f"must be '{context.namespace}', as a binding speaks of its own namespace only"
            )


def _alias_fault(alias: str) -> str:
    try:
        checked_alias(alias)
    except ValueError as error:
        return str(error)
    return ""


class RoleBindingSpec(Spec):
    """`write` includes `read`; `admin` includes all and may grant; `predict` includes nothing else.

    What decides which code runs is for `admin`: variables, images, commands, templates of pods, archives, hooks, charts
    and modules. It is asked of the model, or of the namespace where there is no model, when such a field is given and
    when it changes. To name a secret needs `write` on secrets.
    """

    subjects: Annotated[tuple[str, ...], Most(1000)] = Field(
        description="Who: names of principals, `group:<name>`, or `*` for everybody who has a valid token."
    )
    verbs: Annotated[tuple[Verb, ...], Most(256)] = Field(description="What they may do: read, predict, write, admin.")
    target: BindingTarget = Field(description="With what: `{model}`, `{model, alias}` or `{namespace}`.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        for field, words in (("subjects", self.subjects), ("verbs", self.verbs)):
            if not words:
                yield Fault(f"{at}.{field}", "must have at least 1")
            for index, word in one_of.again(words):
                yield Fault(f"{at}.{field}[{index}]", f"'{word}' is given twice")
        for index, subject in enumerate(self.subjects):
            if not _SUBJECT.fullmatch(subject):
                yield Fault(
                    f"{at}.subjects[{index}]", f"{subject[:100]!r} is nobody: a principal's name, group:<name> or '*'"
                )

    @property
    def model(self) -> str:
        """Empty: the whole namespace."""
        return self.target.model or ""

    @property
    def alias(self) -> str:
        """Empty: whatever the version."""
        return self.target.alias or ""


class RoleBindingStatus(Status):
    """Condition `Accepted`."""
