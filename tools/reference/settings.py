"""docs/reference/settings.md, from the fields of `Settings`."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from itertools import pairwise

from mizzen.settings import Settings
from tools.reference import markdown

INTRO = """\
The first of these that is set wins: a flag of `mizzen up`, if there is one (`--inference-port`); the environment
variable; `settings.toml` in the data dir (`inference_port = 9000`); the default.
A list is written `["a", "b"]` in the file, and `a,b` elsewhere. If the file has an unknown name, or a value has the
wrong type, the plane does not start and lists every fault."""


def page() -> str:
    texts = docstrings()
    rows = [
        (
            markdown.code(setting.name),
            markdown.code(f"MIZZEN_{setting.name.upper()}"),
            "list" if isinstance(setting.default, tuple) else type(setting.default).__name__,
            markdown.code(", ".join(setting.default) if isinstance(setting.default, tuple) else str(setting.default)),
            texts[setting.name],
        )
        for setting in fields(Settings)
    ]
    return markdown.page("Settings", INTRO, markdown.table(("Name", "Variable", "Type", "Default", "Meaning"), rows))


def docstrings() -> dict[str, str]:
    """The docstring below each field of `Settings`, by the name of the field."""
    [declared] = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(declared, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(declared.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
