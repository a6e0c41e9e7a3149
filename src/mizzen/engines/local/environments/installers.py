"""uv or pip: which of them builds an environment here, what they are told to do, and what they are let know.

Where packages come from is for whoever runs the plane to say, in the settings that uv and pip have themselves (files
and variables), or with a folder of wheels. Nothing else is asked: no interpreter is ever fetched.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from mizzen.engines.local.environments.spec import EnvironmentPlace

AUTO: Final = "auto"
NAMES: Final = (AUTO, "uv", "pip")

_LET_KNOW = re.compile(
    r"(UV|PIP)_\w+|LC_\w+|\w+_proxy|XDG_\w+|PKG_CONFIG\w*|"
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|TZ|TMPDIR|TMP|TEMP|NETRC|"
    r"SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|"
    r"CC|CXX|CPP|FC|LD|AR|CFLAGS|CXXFLAGS|CPPFLAGS|FFLAGS|LDFLAGS|ARCHFLAGS|MAKEFLAGS|CUDA_HOME|LD_LIBRARY_PATH|"
    r"MIZZEN_DATA_DIR|MIZZEN_PROCESS_KEY|MIZZEN_PROCESS_RUN",  # by these the supervisor knows its own
    re.IGNORECASE,
)
_KEPT_BACK = re.compile(
    r"PIP_(TARGET|PREFIX|ROOT|USER|PYTHON|DRY_RUN|REQUIREMENT|REPORT|LOG|REQUIRE_VIRTUALENV|PYTHON_VERSION|PLATFORM)|"
    r"UV_(PYTHON|SYSTEM_PYTHON|TARGET|PREFIX|PROJECT|PROJECT_ENVIRONMENT|WORKING_DIRECTORY|BREAK_SYSTEM_PACKAGES|"
    r"PYTHON_DOWNLOADS|MANAGED_PYTHON|NO_MANAGED_PYTHON|PUBLISH_\w+|VENV_\w+|NO_COLOR|NO_PROGRESS)"
)
"""Variables that would lead the work elsewhere than to the environment."""


class NoTool(Exception):
    """Neither can be had; the message says what to do."""


def chosen(wanted: str, environ: Mapping[str, str]) -> str:
    """`uv` or `pip`. Raises NoTool."""
    if wanted == "pip" or (wanted == AUTO and uv(environ) is None):
        return "pip"
    if uv(environ) is None:
        raise NoTool("environment_tool is uv, and there is none: pip install 'mizzen[environments]'")
    return "uv"


def uv(environ: Mapping[str, str]) -> str | None:
    """The one that is installed beside us, else one on the PATH."""
    if importlib.util.find_spec("uv") is not None:
        from uv import find_uv_bin

        try:
            return str(find_uv_bin())
        except FileNotFoundError:
            pass
    return shutil.which("uv", path=environ.get("PATH"))


def commands(
    tool: str, place: EnvironmentPlace, python: str, listed: Path, *, wheels: str, environ: Mapping[str, str]
) -> Iterator[list[str]]:
    """What to run, one after the other. `listed` is a file of requirements."""
    source = ["--no-index", "--find-links", wheels] if wheels else []
    if tool == "uv":
        program = uv(environ)
        assert program is not None
        yield [program, "venv", "--quiet", "--no-project", "--relocatable", "--python", python, str(place.folder)]
        yield [program, "pip", "install", "--python", str(place.python), *source, "-r", str(listed)]
        return
    # What is never imported need not be compiled; the rest is, by the first process that does.
    quick = ["--no-compile", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    installing = ["install", *quick, *source]
    if importlib.util.find_spec("pip") is not None:  # ours serves all interpreters, which saves installing another
        yield [python, "-m", "venv", "--without-pip", str(place.folder)]
        yield [sys.executable, "-P", "-m", "pip", "--python", str(place.python), *installing, "-r", str(listed)]
    else:
        yield [python, "-m", "venv", str(place.folder)]
        yield [str(place.python), "-m", "pip", *installing, "-r", str(listed)]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What uv, pip and the code of packages may know of ours: how to work and where packages come from. What else the
    plane was started with, such as tokens, is not for them."""
    known = {name: value for name, value in environ.items() if _LET_KNOW.fullmatch(name)}
    known = {name: value for name, value in known.items() if not _KEPT_BACK.fullmatch(name)}
    return known | {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
