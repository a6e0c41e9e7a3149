"""Reference pages hold everything the code declares, and are the same each time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from mizzen.kinds import catalog
from mizzen.kinds.schema import explain
from mizzen.kinds.schema.resource import Part
from tools import gen
from tools.reference import fields, kinds, markdown


class Inner(Part):
    """One thing.

    a ──> b
      ──> c
    """

    size: int = Field(2, ge=1, lt=10_000, description="How much.")


class Outer(Part):
    synonyms = {"cmd": "command"}  # noqa: RUF012

    command: tuple[str, ...] = Field(description="What runs.")
    inner: Inner | None = Field(None, description="More.")
    again: tuple[Inner, ...] = Field((), description="Yet more.")
    default: Inner = Field(Inner(size=3), description="With a Part as its default.")


def test_fields_are_told_with_types_defaults_and_limits() -> None:
    assert fields.table(Outer).splitlines()[2:] == [
        "| `command` or `cmd` | list of string | required | What runs. |",
        "| `inner` | [Inner](#inner) |  | More. |",
        "| `again` | list of [Inner](#inner) | `[]` | Yet more. |",
        '| `default` | [Inner](#inner) | `{"size": 3}` | With a Part as its default. |',
    ]
    assert fields.table(Inner).splitlines()[2:] == ["| `size` | integer | `2` | How much. (at least 1, below 10 000) |"]


def test_every_part_is_found_once() -> None:
    assert fields.parts(Outer) == [Outer, Inner]


def test_drawings_stay_as_they_are() -> None:
    assert fields.docstring(Inner) == "One thing.\n\n```\na ──> b\n  ──> c\n```"


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (str, "string"),
        (int | None, "integer"),
        (tuple[float, ...], "list of number"),
        (dict[str, bool], "map of string to boolean"),
        (list[Any], "list of anything"),
        (Annotated[str, "checked"], "string"),
        (Literal["a", "b"], '`"a"` or `"b"`'),
        (Inner, "[Inner](#inner)"),
    ],
)
def test_types_are_said_in_words(annotation: object, text: str) -> None:
    assert fields.type_text(annotation) == text


def test_a_type_without_words_is_noticed() -> None:
    with pytest.raises(TypeError, match="no words for"):
        fields.type_text(bytes)


def test_a_kind_is_shown_in_the_shortest_of_its_own_examples() -> None:
    page = kinds.pages()["docs/reference/kinds/mlgraph.md"]
    assert "`examples/mlgraph/single-model.yaml`:\n\n```yaml\n" in page


def test_cells_stay_on_their_line_and_in_their_column() -> None:
    assert markdown.table(("A",), [("one\n two",), ("a|b `c|<d>` <e>",)]).splitlines()[2:] == [
        "| one two |",
        "| a\\|b `c\\|<d>` &lt;e> |",
    ]


@pytest.fixture(scope="module")
def derived() -> dict[str, str | bytes]:
    """Made once: it takes a second."""
    return gen.files()


def test_the_same_code_gives_the_same_files(derived: dict[str, str | bytes]) -> None:
    assert gen.files() == derived


def test_files_are_written_once_and_stale_ones_are_named(
    derived: dict[str, str | bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gen, "files", lambda: derived)
    assert gen.main(["--check"], tmp_path) == 1
    assert "docs/reference/settings.md" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert gen.main([], tmp_path) == 0
    assert gen.main(["--check"], tmp_path) == 0
    capsys.readouterr()
    assert gen.main([], tmp_path) == 0
    assert capsys.readouterr().out == "Generated files are current.\n"
    page = tmp_path / "docs/reference/kinds.md"
    page.write_text(page.read_text() + "by hand\n")
    assert gen.main(["--check"], tmp_path) == 1


def test_what_is_no_longer_derived_is_removed(
    derived: dict[str, str | bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gen, "files", lambda: derived)
    assert gen.main([], tmp_path) == 0
    left = [tmp_path / "docs/reference/kinds/gone.md", tmp_path / "deploy/crds/gone.yaml"]
    for path in left:
        path.write_text("of a kind that is gone\n")
    assert gen.main(["--check"], tmp_path) == 1
    assert gen.main([], tmp_path) == 0
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize("name", ["Rollout", "Application", "Initializer"])
def test_kinds_that_nothing_runs_yet_are_marked_as_planned(name: str) -> None:
    kind = catalog.BY_NAME[name]
    explained = explain.explain(name)
    assert kind.planned
    assert explained["planned"] is True
    assert "Planned: " in explained["description"]
    assert kind.description in kinds.page(kind)
    assert kind.description in kinds.index()


def test_other_kinds_are_not_planned() -> None:
    planned = {kind.name for kind in catalog.KINDS if kind.planned}
    assert planned == {"Rollout", "Application", "Initializer"}
    assert "planned" not in explain.explain("Model")


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("model.checks", "Model"), ("model.hooks", "Model"), ("inferencemodel.extraNames", "InferenceModel"),
        ("inferencemodel.switch", "InferenceModel"), ("mlgraph.dag.route.cascade", "MLGraph"),
        ("mlgraph.dag.route.mab.exp4", "MLGraph"), ("mlgraph.dag.implementation.inline.kfspec", "MLGraph"),
    ],
)  # fmt: skip
def test_fields_that_nothing_uses_yet_are_marked_as_planned(path: str, page: str) -> None:
    explained = explain.explain(path)
    assert explained["planned"] is True
    assert explained["description"].endswith("Planned: accepted and stored, but not used yet.")
    assert explained["description"] in kinds.page(catalog.BY_NAME[page])
