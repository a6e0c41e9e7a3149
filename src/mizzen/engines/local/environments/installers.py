"""uv or pip: which one builds an environment here, with which commands and which environment variables.

The operator of the plane configures where packages come from: in the own settings of uv and pip (files and variables),
or with a folder of wheels. No interpreter is ever downloaded.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Mapping
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


def create_command(tool: str, paths: EnvironmentPaths, python: str, environ: Mapping[str, str]) -> list[str]:
    """The command that creates an empty environment."""
    if tool == "uv":
        return [
            _uv(environ), "venv", "--quiet", "--no-project", "--relocatable", "--python", python, str(paths.folder)
        ]  # fmt: skip
    return [python, "-m", "venv", *(["--without-pip"] if _has_pip() else []), str(paths.folder)]


def install_command(
    tool: str, paths: EnvironmentPaths, listed: Path, *, wheels: str, environ: Mapping[str, str], build: bool
) -> list[str]:
    """The command that installs the packages of the requirements file `listed`.

    Without `build`, only from wheels, whose installation runs no code of theirs.
    """
    source = ["--no-index", "--find-links", wheels] if wheels else []
    python = str(paths.python)
    if tool == "uv":
        ready = [] if build else ["--no-build"]
        return [_uv(environ), "pip", "install", "--python", python, *ready, *source, "-r", str(listed)]
    ready = [] if build else ["--only-binary", ":all:"]
    quick = ["--no-compile", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    # Our pip can install for other interpreters.
    pip = [sys.executable, "-P", "-m", "pip", "--python", python] if _has_pip() else [python, "-m", "pip"]
    return [*pip, "install", *quick, *ready, *source, "-r", str(listed)]


def compile_command(python: str, folder: Path) -> list[str]:
    """The command that writes the bytecode of modules, which confined replicas cannot. It runs none of their code:
    `python` is the interpreter without any packages. One process: several would talk over sockets with long paths."""
    return [python, "-I", "-S", "-m", "compileall", "-q", str(folder)]


def settings_files(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where uv and pip are configured, and where uv keeps interpreters."""
    home = Path(environ.get("HOME") or "/nonexistent")
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    named = [environ[name] for name in ("PIP_CONFIG_FILE", "UV_CONFIG_FILE", "NETRC") if environ.get(name)]
    return (*named, *map(str, (config / "pip", config / "uv", home / ".pip", home / ".netrc")))


def private_cache(folder: Path) -> dict[str, str]:
    """Variables that keep a build's temporary files and downloads from those of others, in new folders of this one."""
    temporary, cache = folder / "tmp", folder / "cache"
    for each in (temporary, cache):
        each.mkdir(exist_ok=True)
    return dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temporary)) | dict.fromkeys(
        ("UV_CACHE_DIR", "PIP_CACHE_DIR", "XDG_CACHE_HOME"), str(cache)
    )


def filter_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that uv, pip and the code of packages may see: tool settings and package sources. Others that the
    plane was started with, such as tokens, are withheld."""
    known = {name: value for name, value in environ.items() if _ALLOWED.fullmatch(name)}
    known = {name: value for name, value in known.items() if not _DENIED.fullmatch(name)}
    return known | {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def _uv(environ: Mapping[str, str]) -> str:
    program = find_uv(environ)
    assert program is not None
    return program


def _has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None
