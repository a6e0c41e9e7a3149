"""Bundles of options: dataclasses whose fields are options, declared once and taken by several commands.

A command takes a bundle as one parameter. Typer, which knows only single options, sees its fields instead.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def expand_bundles(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of its bundles as parameters, each bundle in the place where it stands."""
    signature = inspect.signature(command, eval_str=True)
    parameters = signature.parameters.values()
    bundles: dict[str, Any] = {each.name: each.annotation for each in parameters if is_dataclass(each.annotation)}

    @functools.wraps(command)
    def call(**values: Any) -> None:
        for name, bundle in bundles.items():
            values[name] = bundle(**{option.name: values.pop(option.name) for option in _options_of(bundle)})
        command(**values)

    expanded = [
        option for each in parameters for option in (_options_of(each.annotation) if each.name in bundles else [each])
    ]
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[each.replace(kind=each.KEYWORD_ONLY) for each in expanded]
    )
    return call


@functools.cache
def _options_of(bundle: Any) -> list[inspect.Parameter]:
    """The fields of a bundle, its own before those it inherits: `--output` comes last."""
    hints = get_type_hints(bundle, include_extras=True)
    defaults = {field.name: field.default for field in fields(bundle)}
    names = [name for each in bundle.__mro__ for name in inspect.get_annotations(each)]
    kind = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(name, kind, default=defaults[name], annotation=hints[name]) for name in names]
