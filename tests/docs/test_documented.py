"""Whatever people meet is documented: kinds, fields, commands, settings, conditions, errors, routes. And links hold."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from http import HTTPStatus
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, Field
from starlette.routing import Route
from typer.main import get_command

import mizzen
from mizzen import errors
from mizzen.cli.app import app
from mizzen.errors import FAMILY, MizzenError
from mizzen.gateway.telemetry import counters
from mizzen.kinds.application import components, policies, steps, traits
from mizzen.kinds.catalog import CORE, KINDS, Kind
from mizzen.kinds.parts.typed_properties import ModuleType
from mizzen.kinds.schema import conditions
from mizzen.kinds.schema.resource import Part
from mizzen.server.monitor.routes import is_for_browsers
from mizzen.settings import Settings
from tests.support.server.harness import serving
from tools.reference import markdown
from tools.reference.errors import GATEWAY

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "mizzen"
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
MODULES = {"components": components.TYPES, "traits": traits.TYPES, "policies": policies.TYPES, "steps": steps.TYPES}

GIVES_REASONS = sorted(
    [
        *SOURCE.glob("controllers/**/*.py"), *SOURCE.glob("reconcile/*.py"), *SOURCE.glob("engines/**/*.py"),
        SOURCE / "kinds" / "catalog.py", SOURCE / "kinds" / "rules" / "placement.py",
    ]
)  # fmt: skip
"""Where conditions and their reasons come from."""
OTHER_WORDS = frozenset(
    {
        "True", "False", "Unknown", "Always", "Never", "OnFailure", "ExitCode", "Normal", "Warning", "None",
        "Worker", "AllWorkers",
    }
)  # fmt: skip
KIND_NAMES = frozenset(name for kind in (*KINDS, *CORE) for name in (kind.name, *kind.other_names))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_has_a_page_with_every_field(kind: Kind) -> None:
    page = _page(f"kinds/{kind.singular}.md")
    assert kind.about
    assert kind.about in page
    assert f"(kinds/{kind.singular}.md)" in _page("kinds.md")
    sections: dict[str, type[BaseModel]] = {"Spec": kind.spec, "Status": kind.status}
    sections |= {part.__name__: part for part in _parts(kind.spec, kind.status)}
    assert list(_undocumented(page, sections)) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.internal], ids=lambda kind: kind.name)
def test_every_kind_that_people_write_is_shown_in_an_example(kind: Kind) -> None:
    example = _section(_page(f"kinds/{kind.singular}.md"), "Example")
    assert f"\nkind: {kind.name}\n" in example


@pytest.mark.parametrize("noun", MODULES)
def test_every_type_of_a_module_is_documented(noun: str) -> None:
    page, types = _page(f"{noun}.md"), MODULES[noun]
    for type_ in types:
        assert type_.description
        assert type_.description in _section(page, type_.name)
        assert all(f"`{alias}`" in _section(page, type_.name) for alias in type_.aliases)
    sections = _properties(types) | {part.__name__: part for part in _parts(*_properties(types).values())}
    assert list(_undocumented(page, sections)) == []


def test_a_field_without_words_or_without_a_row_is_noticed() -> None:
    class Sample(Part):
        told: int = Field(1, description="Something.")
        untold: int = 1
        missing: int = Field(1, description="Something.")

    page = "# Page\n\n## Spec\n\n| `told` | integer |\n| `untold` | integer |\n\n## Status\n\n| `missing` | integer |\n"
    found = list(_undocumented(page, {"Spec": Sample}))
    assert found == ["Spec.untold has no description", "Spec.missing has no row"]


def test_every_command_is_documented_with_help_and_an_example() -> None:
    page, found = _page("cli.md"), dict(_commands("mizzen", get_command(app)))
    assert len(found) > 25
    assert list(_unhelpful(page, found)) == []


def test_a_command_without_words_is_noticed() -> None:
    import typer

    new = typer.Typer()

    @new.command()
    def known(option: int = 1) -> None:
        """Do it."""

    @new.command()
    def unknown() -> None: ...

    found = list(_unhelpful("# Page\n\n## m known\n\nDo it.\n", dict(_commands("m", get_command(new)))))
    assert found == [
        "m known has no example",
        "m known --option has no help",
        "m known --option is not on the page",
        "m unknown has no help",
        "m unknown is not on the page",
    ]


def test_every_setting_is_documented() -> None:
    page = _page("settings.md")
    for setting in fields(Settings):
        assert f"| `{setting.name}` | `MIZZEN_{setting.name.upper()}` |" in page


def test_every_condition_and_reason_that_is_given_is_documented_and_no_other() -> None:
    words = {word for file in GIVES_REASONS for word in _words(file.read_text("utf-8"))}
    documented = set(conditions.TYPES) | set(conditions.REASONS) | set(conditions.EVENT_REASONS)
    assert words - documented == set()
    assert documented - words == set()
    page = _page("conditions.md")
    tables = {"Types": conditions.TYPES, "Reasons": conditions.REASONS, "Events": conditions.EVENT_REASONS}
    for section, table in tables.items():
        for word, text in table.items():
            assert text.endswith("."), word
            assert f"| `{word}` |" in _section(page, section)


def test_what_is_given_as_a_reason_is_documented_as_one() -> None:
    given = [named for file in GIVES_REASONS for named in _named(file.read_text("utf-8"))]
    assert {word for keyword, word in given if keyword == "reason"} - set(conditions.REASONS) == set()
    assert {word for keyword, word in given if keyword == "type"} == set(conditions.TYPES)


def test_a_new_reason_is_noticed() -> None:
    text = 'Condition(type="Ready", status="True", reason="BrandNew")\nx = "Model"\n"""Docstring"""\ny = "TITLE"'
    assert set(_words(text)) == {"Ready", "BrandNew", "Docstring"}
    assert set(_named(text)) == {("type", "Ready"), ("reason", "BrandNew")}


def test_every_error_is_documented() -> None:
    page = _page("errors.md")
    family = {cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, MizzenError)}
    assert family == set(FAMILY.values())
    assert len({cls.reason for cls in family}) == len(family)
    for cls in family:
        assert cls.__doc__
        assert "__doc__" in vars(cls)
        assert re.search(rf"^\| `{cls.reason}` \| \d{{3}} \| `{cls.__name__}` \| \S", page, re.M), cls


def test_every_code_of_the_inference_api_is_documented() -> None:
    trees = [ast.parse(file.read_text("utf-8")) for file in sorted(SOURCE.glob("gateway/**/*.py"))]
    numbers = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    codes = {code.value for code in HTTPStatus if code >= HTTPStatus.BAD_REQUEST} | {counters.GONE}
    assert numbers & codes == set(GATEWAY)
    section = _section(_page("errors.md"), "Inference API")
    assert all(f"| {code} | {text}" in section for code, text in GATEWAY.items())


def test_every_route_is_documented(tmp_path: Path) -> None:
    page = _page("http.md")
    with serving(tmp_path) as harness:
        routes: list[Any] = list(harness.app.routes)
    assert list(_unlisted(page, routes)) == []
    routes.append(Route("/new", lambda _: None, methods=["POST"]))
    assert list(_unlisted(page, routes)) == ["POST /new"]


def test_every_public_name_of_the_sdk_is_documented() -> None:
    page = _page("sdk.md")
    public = {name: getattr(mizzen, name) for name in mizzen.__all__}
    assert list(_unsaid(page, public)) == []
    assert list(_unsaid(page, {"New": type("New", (), {"call": lambda self: self})})) == [
        "New has no docstring", "New is not on the page", "New.call has no docstring", "New.call is not on the page",
    ]  # fmt: skip


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    assert list(_broken(path, path.read_text("utf-8"))) == []


def test_broken_links_are_noticed() -> None:
    text = "# A page\n\n[a](nowhere.md) [b](#a-page) [c](#else) [d](reference/kinds.md#kinds) [e](https://x.org)\n"
    assert list(_broken(ROOT / "docs" / "page.md", text)) == ["nowhere.md", "#else"]


def _page(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def _section(page: str, title: str) -> str:
    """What stands under a heading, up to the next one that is not below it; empty when there is none."""
    found = re.search(rf"^(##+) {re.escape(title)}\n(.*?)(?=^##+ |\Z)", page, re.M | re.S)
    return found[2] if found else ""


def _parts(*models: type[BaseModel]) -> set[type[BaseModel]]:
    """All that their fields are made of."""
    found: set[type[BaseModel]] = set()
    waiting: list[Any] = [info.annotation for model in models for info in model.model_fields.values()]
    while waiting:
        annotation = waiting.pop()
        waiting += get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, Part) and annotation not in found:
            found.add(annotation)
            waiting += [info.annotation for info in annotation.model_fields.values()]
    return found


def _properties(types: Iterable[ModuleType]) -> dict[str, type[BaseModel]]:
    return {type_.name: type_.properties for type_ in types}


def _undocumented(page: str, sections: Mapping[str, type[BaseModel]]) -> Iterator[str]:
    for title, part in sections.items():
        section = _section(page, title)
        if not section:
            yield f"{title} has no section"
        for name, info in part.model_fields.items():
            written = info.alias or name
            if not (info.description or "").strip():
                yield f"{title}.{written} has no description"
            if f"\n| `{written}` " not in section:
                yield f"{title}.{written} has no row"


def _commands(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield words, command
    for name, child in (children or {}).items():
        if not child.hidden:
            yield from _commands(f"{words} {name}", child)


def _unhelpful(page: str, found: dict[str, Any]) -> Iterator[str]:
    for words, command in found.items():
        section = _section(page, words)
        if not (command.help or "").strip():
            yield f"{words} has no help"
        if not section:
            yield f"{words} is not on the page"
            continue
        if not re.search(rf"^{words}( |$)", "\n".join(re.findall(r"```sh\n(.*?)```", section, re.S)), re.M):
            yield f"{words} has no example"
        for parameter in command.params:
            if getattr(parameter, "hidden", False) or parameter.name == "help":
                continue
            option = parameter.param_type_name == "option"
            name = parameter.opts[0] if option else parameter.metavar or parameter.name.upper()
            if not (parameter.help or "").strip():
                yield f"{words} {name} has no help"
            if markdown.code(name.replace("|", r"\|")) not in section:
                yield f"{words} {name} is not on the page"


def _words(text: str) -> Iterator[str]:
    """Texts in the code that look like a condition or a reason."""
    for node in ast.walk(ast.parse(text)):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and re.fullmatch(r"([A-Z][a-z]+)+", value) and value not in OTHER_WORDS | KIND_NAMES:
            yield value


def _named(text: str) -> Iterator[tuple[str, str]]:
    """Constants that are handed over as `type=` or `reason=` of a Condition."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Condition":
            for keyword in node.keywords:
                if keyword.arg in ("type", "reason") and isinstance(keyword.value, ast.Constant):
                    yield keyword.arg, str(keyword.value.value)


def _unlisted(page: str, routes: list[Any]) -> Iterator[str]:
    for route in routes:
        if is_for_browsers(route.path):
            continue
        for method in sorted(route.methods - ({"HEAD"} if "GET" in route.methods else set())):
            # Some paths of Kubernetes are asked for with a slash at the end, too.
            if f"| `{method} {route.path.rstrip('/') or '/'}` |" not in page:
                yield f"{method} {route.path}"


def _unsaid(page: str, public: Mapping[str, Any]) -> Iterator[str]:
    """Public functions, classes, methods and properties that say nothing of themselves, or that nobody finds."""
    everything = dict(public)
    for name, one in public.items():
        for inner, member in vars(one).items() if inspect.isclass(one) else ():
            if not inner.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                everything[f"{name}.{inner}"] = member
    for name, one in everything.items():
        if not (one.__doc__ or "").strip():
            yield f"{name} has no docstring"
        if not re.search(rf"^###? {re.escape(name)}$", page, re.M):
            yield f"{name} is not on the page"


def _broken(path: Path, text: str) -> Iterator[str]:
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    for link in re.findall(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)", prose):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        file = (path.parent / target).resolve() if target else path
        there = file.exists() if target else True
        content = text if file == path else file.read_text("utf-8") if there and file.suffix == ".md" else ""
        if not there or (anchor and anchor not in _anchors(content)):
            yield link


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
