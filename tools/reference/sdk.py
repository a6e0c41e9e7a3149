"""docs/reference/sdk.md, from the public names of the package and the return values of their calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import mizzen
from mizzen.manifests.lint import Checked
from mizzen.sdk.operations.apply import Applied
from mizzen.sdk.operations.compare import Comparison, FieldChange, FileChange
from mizzen.sdk.operations.deploy import Deployment
from mizzen.sdk.operations.rollback import Undone
from mizzen.sdk.packaging.tensors import Prediction
from tools.reference import markdown

INTRO = """\
`import mizzen` provides these names. All calls are synchronous. `plane.calls` is the same client for programs with an
event loop: it has the same calls as coroutines, and some more. Calls raise the exceptions of
[mizzen.errors](errors.md); a docstring names those to expect. Warnings of a plane are emitted as `MizzenWarning`."""

GIVEN = (Deployment, Prediction, Applied, Checked, Comparison, FieldChange, FileChange, Undone)
"""Return values of calls that are not plain data."""


def page() -> str:
    public = [getattr(mizzen, name) for name in mizzen.__all__]
    functions = [one for one in public if inspect.isfunction(one)]
    classes = [one for one in public if inspect.isclass(one)]
    return markdown.page(
        "Python",
        INTRO,
        *(block for function in functions for block in _function(function)),
        *(block for one in classes for block in _class(one)),
        "## Return values",
        *(block for one in GIVEN for block in _given(one)),
    )


def members(one: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, in the order of the source."""
    for name, member in vars(one).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield name, member


def docstring(one: Any) -> str:
    return inspect.cleandoc(one.__doc__ or "")


def _function(function: Any) -> list[str]:
    return [f"## {function.__name__}", _code(f"mizzen.{function.__name__}", function), docstring(function)]


def _class(one: type) -> Iterator[str]:
    yield f"## {one.__name__}"
    yield docstring(one)
    for name, member in members(one):
        yield f"### {one.__name__}.{name}"
        if isinstance(member, property):
            yield f"```python\n{one.__name__.lower()}.{name}  # {_result(member)}\n```"
        else:
            yield _code(f"{one.__name__.lower()}.{name}", member)
        yield docstring(member)


def _given(one: type) -> Iterator[str]:
    yield f"### {one.__name__}"
    own = docstring(one)
    yield "" if own.startswith(f"{one.__name__}(") else own  # the generated docstring of a dataclass
    assert is_dataclass(one)
    rows = [(markdown.code(field.name), markdown.code(_type(field.type))) for field in fields(one)]
    rows += [
        (markdown.code(name), markdown.code(_result(member)))
        for name, member in members(one)
        if isinstance(member, property)
    ]
    yield markdown.table(("Attribute", "Type"), rows)


def _code(name: str, function: Any) -> str:
    """The call on one line or, if that is too long, with one line per parameter."""
    signature = inspect.signature(function)
    words = list(_parameters([one for one in signature.parameters.values() if one.name != "self"]))
    result = _type(signature.return_annotation)
    line = f"{name}({', '.join(words)}) -> {result}"
    if len(line) > 100:
        line = "\n".join([f"{name}(", *(f"    {word}," for word in words), f") -> {result}"])
    return f"```python\n{line}\n```"


def _parameters(shown: list[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for one in shown:
        if one.kind is one.KEYWORD_ONLY and not starred:
            yield "*"
        starred = starred or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        default = "" if one.default is one.empty else f" = {_default(one.default)}"
        yield f"{stars}{one.name}: {_type(one.annotation)}{default}"


def _default(value: Any) -> str:
    return value.__name__ if callable(value) else repr(value)


def _result(member: property) -> str:
    assert member.fget is not None
    return _type(inspect.signature(member.fget).return_annotation)


def _type(annotation: Any) -> str:
    """The annotation as written in the code, without module names."""
    return re.sub(r"\b[a-z]+\.(?=\w)", "", str(annotation))
