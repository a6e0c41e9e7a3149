"""README and pages tell the truth: their commands are run in order, in a folder like a fresh checkout, on a new plane.

Which blocks, and what they must print: `tests.support.pages`. The default ports in commands are replaced by those the
plane was given. Every command is a process of its own here, and every framework is served, which takes minutes; that
the commands exist is what `tests/docs` shows in a second.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import planes
from tests.support.pages import ROOT, WALKS, Step, walk


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """A folder where the README's relative paths work, without writing to the real checkout."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("mizzen", "examples"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    data_dir = folder / ".mizzen"
    try:
        yield folder
    except BaseException:
        for log in sorted((data_dir / "logs").glob("*.log")):
            sys.stderr.write(f"---- {log.name}\n{log.read_text(errors='replace')[-3000:]}\n")
        raise
    finally:
        if planes.members(data_dir):
            planes.run_cli(data_dir, "down", check=False)
        planes.end_all(data_dir)


@pytest.mark.timeout(600)
@pytest.mark.skipif(not (ROOT / ".venv/bin/mizzen").exists(), reason="./mizzen needs the .venv of `make setup`")
@pytest.mark.skipif(shutil.which("curl") is None, reason="the README uses curl")
@pytest.mark.parametrize(("page", "least"), WALKS)
def test_what_a_page_says_is_so(checkout: Path, page: str, least: int) -> None:
    there = walk(page)
    assert len(there) >= least
    ports: dict[str, str] = {}
    for step in there:
        printed = run(checkout, page, step, ports)
        at = 0
        for line in step.output:
            at = printed.find(line, at)
            assert at >= 0, f"{page}:{step.line}: no '{line}' in what was printed:\n{printed}"
            at += len(line)
        if not ports:
            ports = real_ports(checkout)
    assert planes.members(checkout / ".mizzen") == [], "`mizzen down` left processes behind"


def run(checkout: Path, page: str, step: Step, ports: dict[str, str]) -> str:
    code = step.code
    for default, real in ports.items():
        code = code.replace(f"localhost:{default}", f"localhost:{real}")
    command = {"sh": ["bash", "-euo", "pipefail", "-c", code], "python": [".venv/bin/python", "-c", code]}[
        step.language
    ]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MIZZEN_")}
    done = subprocess.run(
        command,
        cwd=checkout,
        # MIZZEN_DATA_DIR is what the default gives here; named, so that every process can be found and ended.
        env=environ
        | {
            "MIZZEN_PORT": "0",
            "MIZZEN_INFERENCE_PORT": "0",
            "MIZZEN_GRPC_PORT": "0",
            "MIZZEN_TLS_PORT": "0",
            "MIZZEN_DATA_DIR": str(checkout / ".mizzen"),
            "COLUMNS": "200",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, f"{page}:{step.line} exited {done.returncode}\n{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def real_ports(checkout: Path) -> dict[str, str]:
    status = json.loads(planes.run_cli(checkout / ".mizzen", "status", "-o", "json").stdout)
    urls = {"8470": status["control_url"], "8471": status["inference_url"], "8473": status["tls_url"]}
    return {default: url.rstrip("/").rpartition(":")[2] for default, url in urls.items()}
