"""`mizzen plugins`: installed frameworks and blob stores, and broken plug-ins."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from mizzen.cli.output import Printer

if TYPE_CHECKING:
    from mizzen.frameworks import Framework


def plugins(printer: Printer) -> None:
    """List installed frameworks, blob stores and broken plug-ins.

    The list covers the Python environment of this command. A plane that 'mizzen up' starts has the same one.

    \b
    Example:
      mizzen plugins
    """
    from mizzen import frameworks
    from mizzen import plugins as installed
    from mizzen.blobs.open_store import BUILT_IN

    rows = [
        {
            "kind": "framework",
            "name": one.name,
            "package": one.package or "mizzen",
            "files": " ".join((*one.suffixes, *one.files)),
            "state": _state_of(one),
        }
        for one in frameworks.known().values()
    ]
    stores = [(name, "mizzen") for name in BUILT_IN]
    stores += [(one.name, installed.package_of(one)) for one in installed.entries(installed.BLOBS)]
    rows += [
        {"kind": "blob store", "name": name, "package": package, "files": f"{name}://", "state": "installed"}
        for name, package in stores
    ]
    rows += [
        {"kind": "framework", "name": one.name, "package": one.package, "files": "", "state": f"broken: {one.error}"}
        for one in frameworks.broken()
    ]
    printer.write_list(rows, ("kind", "name", "package", "files", "state"), "no plug-ins")


def _state_of(one: Framework) -> str:
    """Whether a runtime can load models of this framework, judged without importing its packages."""
    lacking = [name for name in one.packages if importlib.util.find_spec(name) is None]
    return f"needs {lacking[0]}: {one.install}" if lacking else "installed"
