"""Reference pages hold everything the code declares, and are the same each time."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal

import pytest

from mizzen.kinds.catalog import KINDS
from mizzen.settings import Settings
from tools import gen
from tools.reference import cli, kinds, markdown, settings


def test_every_setting_has_its_row() -> None:
    page = settings.page()
    for setting in fields(Settings):
        assert f"| `{setting.name}` | `MIZZEN_{setting.name.upper()}` |" in page
        assert setting.metadata["help"]


def test_every_field_of_every_kind_has_its_row() -> None:
    page = kinds.page()
    for kind in KINDS:
        assert f"## {kind.name}\n" in page
        for field in [*kind.spec.model_fields.values(), *kind.status.model_fields.values()]:
            assert f"| `{field.alias}` |" in page


def test_every_command_is_shown_with_an_example() -> None:
    page = cli.page()
    for words in ("mizzen up", "mizzen deploy", "mizzen logs"):
        assert f"## {words}\n" in page
    for section in page.split("\n## ")[1:]:
        assert "```sh\nmizzen " in section, section


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (str, "string"),
        (int | None, "integer"),
        (tuple[float, ...], "list of number"),
        (dict[str, bool], "map of string to boolean"),
        (Annotated[str, "checked"], "string"),
        (Literal["a", "b"], '`"a"` or `"b"`'),
    ],
)
def test_types_are_said_in_words(annotation: object, text: str) -> None:
    assert kinds.type_text(annotation) == text


def test_cells_stay_on_their_line_and_in_their_column() -> None:
    assert markdown.table(("A",), [("one\n two",), ("a|b `c|<d>` <e>",)]).splitlines()[2:] == [
        "| one two |",
        "| a\\|b `c\\|<d>` &lt;e> |",
    ]


def test_pages_are_written_once_and_stale_ones_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gen.main(["--check"], tmp_path) == 1
    assert "docs/reference/settings.md" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert gen.main([], tmp_path) == 0
    assert gen.main(["--check"], tmp_path) == 0
    page = tmp_path / "docs/reference/kinds.md"
    page.write_text(page.read_text() + "by hand\n")
    assert gen.main(["--check"], tmp_path) == 1
