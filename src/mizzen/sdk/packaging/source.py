"""The source of a deployment as one path to send and an entrypoint: files, folders, and `module:object`.

A module is found and read from a folder, never imported: deploying code must not run it here.
"""

from __future__ import annotations

import ast
import difflib
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mizzen import errors

_NAME: Final = r"[^\W\d]\w*"
_ENTRYPOINT: Final = re.compile(rf"(?P<module>{_NAME}(\.{_NAME})*):(?P<object>{_NAME}(\.{_NAME})*)")
_FILE_ENTRYPOINT: Final = re.compile(rf"(?P<file>.+\.py):(?P<object>{_NAME}(\.{_NAME})*)")
_LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


@dataclass(frozen=True, slots=True)
class Source:
    """The content of a version: a file or folder, and the entrypoint in it."""

    path: Path
    framework: str | None = None
    entrypoint: str | None = None


@contextmanager
def open_source(what: str, folder: Path, entrypoint: str | None = None) -> Iterator[Source]:
    """Yield the source that `what` names, relative to `folder`. Its temporary copies are removed afterwards.

    `entrypoint` names the object to load from a path; `module:object` already names it. Raises NotFound, Invalid.
    """
    path = folder / what
    if path.exists():
        yield _source_of_path(path.resolve(), what) if entrypoint is None else Source(path.resolve(), None, entrypoint)
        return
    if entrypoint is not None:
        raise errors.NotFound(
            f"no file or folder '{what}' here", hint="an entrypoint needs a path; module:object names both"
        )
    by_file = _FILE_ENTRYPOINT.fullmatch(what)
    if by_file and (folder / by_file["file"]).is_file():
        file = (folder / by_file["file"]).resolve()
        yield _source_of_file(file, file.stem, by_file["object"])
        return
    by_name = _ENTRYPOINT.fullmatch(what)
    if by_name is None:
        raise errors.NotFound(
            f"no file or folder '{what}' here",
            hint="give a path such as model.joblib, or module:object for Python code",
        )
    with _open_module(by_name["module"], by_name["object"], folder.resolve()) as source:
        yield source


def check_defines(file: Path, object_: str) -> None:
    """Raise NotFound if the module in `file` does not define the object; Invalid if it cannot be parsed as Python."""
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise errors.Invalid(f"{file.name}{line} is not valid Python: {error.args[0]}") from error
    names = _names_defined(tree.body)
    wanted = object_.split(".", maxsplit=1)[0]
    if wanted in names or "*" in names or "__getattr__" in names:
        return
    close = difflib.get_close_matches(wanted, names, n=1, cutoff=0.75)
    public = sorted(name for name in names if not name.startswith("_"))
    hint = f"did you mean '{close[0]}'?" if close else "it defines " + (", ".join(public) or "nothing")
    raise errors.NotFound(f"{file.name} does not define '{wanted}'", hint=hint)


def _source_of_path(path: Path, what: str) -> Source:
    if path.is_file() and path.suffix == ".py":
        raise errors.Invalid(
            f"{what} is Python code: name the object to serve", hint=f"for example {path.stem}:predict"
        )
    return Source(path)


@contextmanager
def _open_module(module: str, object_: str, folder: Path) -> Iterator[Source]:
    file = _find_file(module, folder)
    top, _, rest = module.partition(".")
    if not rest and file.name != "__init__.py":
        yield _source_of_file(file, module, object_)
        return
    check_defines(file, object_)
    with tempfile.TemporaryDirectory(prefix="mizzen-") as copy:
        # The package's folder keeps its name below the root that is sent, so that `import pkg.mod` works there.
        shutil.copytree(folder / top, Path(copy) / top, ignore=_LEFT_OUT)
        yield Source(Path(copy), "python", f"{module}:{object_}")


def _source_of_file(file: Path, module: str, object_: str) -> Source:
    check_defines(file, object_)
    return Source(file, "python", f"{module}:{object_}")


def _find_file(module: str, folder: Path) -> Path:
    place = folder.joinpath(*module.split("."))
    for file in (place / "__init__.py", place.with_name(place.name + ".py")):
        if file.is_file():
            return file
    near = [
        path.stem
        for path in (place.parent.iterdir() if place.parent.is_dir() else ())
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    ]
    close = difflib.get_close_matches(place.name, near, n=1, cutoff=0.75)
    parent, _, _ = module.rpartition(".")
    hint = "deploy from the folder that contains it"
    if close:
        hint = f"did you mean '{parent}.{close[0]}'?" if parent else f"did you mean '{close[0]}'?"
    raise errors.NotFound(f"no module '{module}' in {folder}", hint=hint)


def _names_defined(statements: list[ast.stmt]) -> set[str]:
    """Return the names that a module defines at its top level, also within if, try, with and loops."""
    names: set[str] = set()
    for statement in statements:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(statement.name)
            case ast.Import() | ast.ImportFrom():
                names |= {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names |= {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
            case _:
                for block in _blocks(statement):
                    names |= _names_defined(block)
    return names


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for part in ("body", "orelse", "finalbody"):
        yield getattr(statement, part, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body
