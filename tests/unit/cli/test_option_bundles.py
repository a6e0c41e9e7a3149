"""Bundles: a command takes them as one parameter, and typer sees their options."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

from mizzen.cli.option_bundles import expand_bundles
from mizzen.cli.parameters import option


@dataclass(frozen=True)
class Shown:
    form: Annotated[str, option("Output format.", "--output")] = "table"


@dataclass(frozen=True)
class Placed(Shown):
    folder: Annotated[str | None, option("Folder.")] = None


def test_fields_stand_in_the_place_of_the_bundle_own_before_inherited() -> None:
    calls: list[object] = []

    def command(name: str, placed: Placed, last: int = 1) -> None:
        calls.append((name, placed, last))

    expanded = expand_bundles(command)
    parameters = inspect.signature(expanded).parameters
    assert list(parameters) == ["name", "folder", "form", "last"]
    assert parameters["form"].default == "table"
    expanded(name="iris", folder="a", form="json", last=2)
    assert calls == [("iris", Placed(form="json", folder="a"), 2)]


def test_other_parameters_are_not_changed() -> None:
    def command(name: str, count: int | None = None) -> None:
        """Count."""

    assert list(inspect.signature(expand_bundles(command)).parameters) == ["name", "count"]
    assert expand_bundles(command).__doc__ == "Count."
