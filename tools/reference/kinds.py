"""docs/reference/kinds.md and a page for each kind, generated from the catalog: all fields of specs and statuses."""

from __future__ import annotations

from pathlib import Path

import yaml

from mizzen.kinds.catalog import KINDS, Kind
from mizzen.kinds.parts.typed_properties import TypedPart
from mizzen.kinds.schema.resource import API_VERSION
from tools.reference import fields, markdown

INTRO = f"""\
Objects have `apiVersion: {API_VERSION}`, `kind`, `metadata`, `spec` and `status`. Users write `metadata` and `spec`;
controllers write `status`. Requests with unknown fields are rejected. `mizzen explain KIND` and `kubectl explain KIND`
show the same information."""

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SEEDS = "seeds"
"""Examples of other projects, some of which have mistakes."""


def pages() -> dict[str, str]:
    """Path to content."""
    return {"docs/reference/kinds.md": index()} | {
        f"docs/reference/kinds/{kind.singular}.md": page(kind) for kind in KINDS
    }


def index() -> str:
    rows = [
        (
            f"[{kind.name}](kinds/{kind.singular}.md)",
            markdown.code(kind.plural),
            markdown.code(kind.short),
            kind.description,
        )
        for kind in KINDS
    ]
    return markdown.page("Kinds", INTRO, markdown.table(("Kind", "Plural", "Short", "What it is"), rows))


def page(kind: Kind) -> str:
    parts = [part for part in fields.parts(kind.spec, kind.status) if part not in (kind.spec, kind.status)]
    return markdown.page(
        kind.name,
        kind.description,
        *_facts(kind),
        *_example(kind),
        *_with_kubectl(kind),
        *fields.section(kind.spec, 2, "Spec"),
        *_modules(kind),
        *fields.section(kind.status, 2, "Status"),
        "## Parts",
        *(block for part in sorted(parts, key=lambda part: part.__name__) for block in fields.section(part, 3)),
    )


def _facts(kind: Kind) -> list[str]:
    names = f"Also called {markdown.code(kind.plural)} and {markdown.code(kind.short)}"
    facts = [f"{names}; on a cluster {markdown.code(f'{kind.plural}.mizzen.dev')}."]
    if kind.other_names:
        others = ", ".join(map(markdown.code, kind.other_names))
        facts.append(f"Manifests may also use the kind {others}.")
    if kind.internal:
        facts.append("Internal: users can read it, but only Mizzen writes it.")
    if kind.fixed:
        facts.append(
            "Immutable after creation: " + ", ".join(markdown.code(field) for field in sorted(kind.fixed)) + "."
        )
    if kind.spec.required_of_users:
        infos = kind.spec.model_fields
        owed = ", ".join(markdown.code(infos[name].alias or name) for name in sorted(kind.spec.required_of_users))
        facts.append(f"Requests must also set {owed}, although stored objects may use the defaults.")
    selectable = ", ".join(map(markdown.code, ("metadata.name", "metadata.namespace", *kind.indexed)))
    facts.append(f"Field selectors: {selectable}.")
    return [" ".join(facts)]


def _example(kind: Kind) -> list[str]:
    path = _shortest(kind)
    if path is None:
        return []
    return ["## Example", f"`{_named(path)}`:", f"```yaml\n{path.read_text('utf-8').strip()}\n```"]


def _with_kubectl(kind: Kind) -> list[str]:
    """Tests run these commands. Kubernetes has kinds with some of these names, too, so the group is included."""
    path = _shortest(kind)
    lines = [] if path is None else [f"kubectl apply -f {_named(path)}"]
    lines += [f"kubectl get {kind.plural}.mizzen.dev", f"kubectl explain {kind.plural}.mizzen.dev.spec"]
    code = "\n".join(lines)
    return ["[With kubectl](../../kubectl.md):", f"```sh\n{code}\n```"]


def _shortest(kind: Kind) -> Path | None:
    """The shortest example that contains only this kind."""
    found = [path for path in EXAMPLES.rglob("*.yaml") if SEEDS not in path.parts and _kinds_in(path) == {kind.name}]
    return min(found, key=lambda path: (len(path.read_text("utf-8").splitlines()), path), default=None)


def _named(path: Path) -> str:
    return path.relative_to(EXAMPLES.parent).as_posix()


def _kinds_in(path: Path) -> set[str]:
    documents = yaml.load_all(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
    return {str(document.get("kind")) for document in documents if isinstance(document, dict)}


def _modules(kind: Kind) -> list[str]:
    """Links to the pages that describe `properties`."""
    typed = [part for part in fields.parts(kind.spec) if issubclass(part, TypedPart)]
    nouns = dict.fromkeys(part.noun for part in typed)
    if not nouns:
        return []
    links = ", ".join(f"[{noun} types](../{PAGES[noun]})" for noun in nouns)
    return [f"For the `properties`, see {links}."]


PAGES = {"component": "components.md", "trait": "traits.md", "policy": "policies.md", "step": "steps.md"}
"""The page of the types of each noun."""
