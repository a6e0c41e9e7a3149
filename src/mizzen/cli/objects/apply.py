"""`mizzen apply`, `lint` and `diff`: manifests, and the objects of a plane."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.output import Format, Printer
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import Session

if TYPE_CHECKING:
    from mizzen.manifests.lint import Checked
    from mizzen.manifests.reader import Document
    from mizzen.sdk.client import AsyncPlane
    from mizzen.sdk.operations.apply import Applied
    from mizzen.sdk.operations.compare import Comparison, FileChange

Files = Annotated[
    list[str], option("YAML or JSON file, or a folder; '-' is stdin. Repeatable.", "--file", "-f", metavar="FILE|DIR|-")
]


class LintTarget(StrEnum):
    EMBEDDED = "embedded"
    CLUSTER = "cluster"


def apply(
    *,
    files: Files,
    wait: Annotated[bool, option("Wait until all are accepted and servers ready.", "--wait/--no-wait")] = False,
    dry_run: Annotated[bool, option("Only show what would change; write nothing.", "--dry-run")] = False,
    timeout: Annotated[float, option("Seconds to wait.", min=0.1)] = 120.0,
    session: Session,
) -> None:
    """Create or update the objects in files. All are checked first: if one is invalid, none is applied.

    Objects are applied and shown kind by kind: models, versions, servers, then the objects that call them.

    \b
    Example:
      mizzen apply -f model.yaml
      mizzen apply -f manifests/ --dry-run
      mizzen get model iris -o yaml | mizzen apply -f -
    """
    from mizzen.sdk.operations import apply as operations_apply

    documents = _read(files)
    items: list[Applied] = []

    def tell(applied: Applied) -> None:
        items.append(applied)
        if session.form is Format.TABLE and applied.outcome in ("created", "configured", "unchanged"):
            output.write(f"{applied}{' (dry run)' if dry_run else ''}")

    async def work(plane: AsyncPlane) -> None:
        done = await operations_apply.apply(plane, documents, dry_run=dry_run, namespace=session.namespace, tell=tell)
        if wait and not dry_run:
            for applied in done:
                await plane.wait(
                    applied.kind, applied.name, _condition_when_done(applied.kind), timeout, namespace=applied.namespace
                )

    try:
        session.call(work)
    finally:
        # After a failure, too: show what was applied and what was not.
        if items and session.form is not Format.TABLE:
            session.write_data({"items": [asdict(applied) for applied in items]})


def lint(
    files: Files,
    home: Annotated[LintTarget, option("Target environment to check for.", "--for")] = LintTarget.EMBEDDED,
    *,
    printer: Printer,
) -> None:
    """Check files without a plane. Exits with 0 if all would be accepted, even with warnings.

    \b
    Example:
      mizzen lint -f manifests/
      mizzen lint -f graph.yaml --for cluster
    """
    from mizzen.manifests import lint as linting

    checked = linting.lint(_read(files), linting.CAPABILITIES[home.value])
    lines = (line for one in checked for line in _check_lines(one))
    printer.write_lines({"items": [_to_data(one) for one in checked]}, lines)
    if any(one.faults for one in checked):
        raise typer.Exit(1)


def diff(
    versions: Annotated[list[str] | None, argument("MODEL:VERSION MODEL:VERSION", "Two versions to compare.")] = None,
    files: Annotated[
        list[str] | None, option("Files to compare with the live objects.", "--file", "-f", metavar="FILE|DIR|-")
    ] = None,
    *,
    session: Session,
) -> None:
    """Show what applying files would change, or compare versions.

    Exits with 0 if nothing differs, 1 if something does, and 2 on an error.

    \b
    Example:
      mizzen diff -f model.yaml
      mizzen diff iris:1 iris:2
      mizzen diff iris@prod iris:3 -o json
    """
    if bool(files) == bool(versions) or (versions and len(versions) != 2):
        raise typer.BadParameter("give either -f FILE, or two versions such as iris:1 iris:2")
    try:
        same = _diff_files(files, session) if files else _diff_versions(versions or [], session)
    except errors.MizzenError as error:
        output.write_error(error)
        raise typer.Exit(2) from error
    if not same:
        raise typer.Exit(1)


def _read(files: list[str]) -> list[Document]:
    from mizzen.manifests import reader

    return [document for file in files for document in reader.read(file)]


def _diff_files(files: list[str], session: Session) -> bool:
    from mizzen.sdk.operations import apply as operations_apply

    documents = _read(files)
    text = session.call(lambda plane: operations_apply.diff(plane, documents, namespace=session.namespace))
    if session.form is not Format.TABLE:
        session.write_data({"diff": text})
    elif text:
        output.write(text, nl=False)
    return not text


def _diff_versions(versions: list[str], session: Session) -> bool:
    from mizzen.sdk.operations import compare

    found = session.call(lambda plane: compare.compare(plane, versions[0], versions[1]))
    session.write_lines(asdict(found), _comparison_lines(found))
    return found.equal


def _comparison_lines(found: Comparison) -> Iterator[str]:
    yield f"{found.before} -> {found.after}"
    for change in found.fields:
        yield f"  {change.field}: {_format_value(change.before)} -> {_format_value(change.after)}"
    width = max((len(file.path) for file in found.files), default=0)
    for file in found.files:
        yield f"  {file.change:<8} {file.path:<{width}}  {_format_sizes(file)}".rstrip()
    halves = " and ".join(found.halves)
    yield f"{halves} changed" if halves else "no file changed"


def _format_value(value: Any) -> str:
    import json

    return "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _format_sizes(file: FileChange) -> str:
    if file.change == "changed":
        return f"{output.format_size(file.before)} -> {output.format_size(file.after)}"
    return output.format_size(file.before if file.after is None else file.after)


def _check_lines(one: Checked) -> Iterator[str]:
    at = one.document.place
    for fault in one.faults:
        yield f"{at}: error: {fault}"
    for warning in one.warnings:
        yield f"{at}: warning: {warning}"
    if not one.faults:
        count = len(one.warnings)
        suffix = f" with {count} warning{'s' if count > 1 else ''}" if count else ""
        yield f"{at}: accepted{suffix}"


def _to_data(one: Checked) -> dict[str, Any]:
    document = one.document
    return {
        "source": document.source,
        "line": document.line,
        "object": str(document),
        "accepted": not one.faults,
        "faults": [asdict(fault) for fault in one.faults],
        "warnings": [asdict(warning) for warning in one.warnings],
    }


def _condition_when_done(kind: str) -> str:
    """The condition that reports that an object of this kind matches its spec."""
    from mizzen.kinds import catalog

    paths = {column.path for column in catalog.BY_NAME[kind].columns}
    return "Ready" if "condition:Ready" in paths else "Accepted"
