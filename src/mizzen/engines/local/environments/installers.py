"""uv or pip: which one builds an environment here, with which commands and which environment variables.

The operator of the plane configures where packages come from: in the own settings of uv and pip (files and variables),
or with a folder of wheels. No interpreter is ever downloaded.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from mizzen.engines.local.environments.spec import EnvironmentPaths

AUTO: Final = "auto"
NAMES: Final = (AUTO, "uv", "pip")

_ALLOWED = re.compile(
    r"(UV|PIP)_\w+|LC_\w+|\w+_proxy|XDG_\w+|PKG_CONFIG\w*|"
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|TZ|TMPDIR|TMP|TEMP|NETRC|"
    r"SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|"
    r"CC|CXX|CPP|FC|LD|AR|CFLAGS|CXXFLAGS|CPPFLAGS|FFLAGS|LDFLAGS|ARCHFLAGS|MAKEFLAGS|CUDA_HOME|LD_LIBRARY_PATH|"
    r"MIZZEN_DATA_DIR|MIZZEN_PROCESS_KEY|MIZZEN_PROCESS_RUN",  # the supervisor recognizes its processes by these
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"PIP_(TARGET|PREFIX|ROOT|USER|PYTHON|DRY_RUN|REQUIREMENT|REPORT|LOG|REQUIRE_VIRTUALENV|PYTHON_VERSION|PLATFORM)|"
    r"UV_(PYTHON|SYSTEM_PYTHON|TARGET|PREFIX|PROJECT|PROJECT_ENVIRONMENT|WORKING_DIRECTORY|BREAK_SYSTEM_PACKAGES|"
    r"PYTHON_DOWNLOADS|MANAGED_PYTHON|NO_MANAGED_PYTHON|PUBLISH_\w+|VENV_\w+|NO_COLOR|NO_PROGRESS)"
)
"""Variables that would install packages elsewhere than into the environment."""


class NoTool(Exception):
    """The tool is not available; the message says what to do."""


def choose_tool(wanted: str, environ: Mapping[str, str]) -> str:
    """`uv` or `pip`. Raises NoTool."""
    if wanted == "pip" or (wanted == AUTO and find_uv(environ) is None):
        return "pip"
    if find_uv(environ) is None:
        raise NoTool("environment_tool is uv, but uv is not installed: pip install 'mizzen[environments]'")
    return "uv"


def find_uv(environ: Mapping[str, str]) -> str | None:
    """The uv that is installed next to Mizzen, or else one on the PATH."""
    if importlib.util.find_spec("uv") is not None:
        from uv import find_uv_bin

        try:
            return str(find_uv_bin())
        except FileNotFoundError:
            pass
    return shutil.which("uv", path=environ.get("PATH"))


def build_commands(
    tool: str, paths: EnvironmentPaths, python: str, listed: Path, *, wheels: str, environ: Mapping[str, str]
) -> Iterator[list[str]]:
    """The commands to run, in order. `listed` is a requirements file."""
    source = ["--no-index", "--find-links", wheels] if wheels else []
    if tool == "uv":
        program = find_uv(environ)
        assert program is not None
        yield [program, "venv", "--quiet", "--no-project", "--relocatable", "--python", python, str(paths.folder)]
        yield [program, "pip", "install", "--python", str(paths.python), *source, "-r", str(listed)]
        return
    # Modules are compiled by the first process that imports them; most are never imported.
    quick = ["--no-compile", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    installing = ["install", *quick, *source]
    if importlib.util.find_spec("pip") is not None:  # our pip can install for other interpreters
        yield [python, "-m", "venv", "--without-pip", str(paths.folder)]
        yield [sys.executable, "-P", "-m", "pip", "--python", str(paths.python), *installing, "-r", str(listed)]
    else:
        yield [python, "-m", "venv", str(paths.folder)]
        yield [str(paths.python), "-m", "pip", *installing, "-r", str(listed)]


def filter_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that uv, pip and the code of packages may see: tool settings and package sources. Others that the
    plane was started with, such as tokens, are withheld."""
    known = {name: value for name, value in environ.items() if _ALLOWED.fullmatch(name)}
    known = {name: value for name, value in known.items() if not _DENIED.fullmatch(name)}
    return known | {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
