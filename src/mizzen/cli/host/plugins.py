"""plugins: which frameworks and blob stores are known here, and which plug-ins are broken."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from mizzen.cli import output
from mizzen.cli.output import Format
from mizzen.cli.session import Output

if TYPE_CHECKING:
    from mizzen.frameworks import Framework


def plugins(form: Output = Format.TABLE) -> None:
    """List the frameworks and blob stores that are installed here, by whom, and those that are broken.

    It tells of the environment that this command is installed in, which is that of the plane where it starts one.

    \b
    Example:
      mizzen plugins
    """
    from mizzen import frameworks
    from mizzen import plugins as installed
    from mizzen.blobs.store import BUILT_IN

    rows = [
        {
            "kind": "framework",
            "name": one.name,
            "package": one.package or "mizzen",
            "files": " ".join((*one.suffixes, *one.files)),
            "state": _state(one),
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
    output.listing(rows, ("kind", "name", "package", "files", "state"), "nothing is known", form)


def _state(one: Framework) -> str:
    """What a runtime finds when it loads a model of this framework, as far as that can be told without trying."""
    lacking = [name for name in one.packages if importlib.util.find_spec(name) is None]
    return f"needs {lacking[0]}: {one.install}" if lacking else "installed"
