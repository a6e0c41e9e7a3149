"""Clients that generators of others make from the documents of a running plane, used against it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conformance.kubectl import CHECKOUT
from tests.support import models, planes
from tests.support.caller import COEFFICIENTS
from tools import generated_clients

PROGRAMS = Path(__file__).with_name("programs") / "with_generated"
MODULES = CHECKOUT / ".venvs/typescript/node_modules"
LIMIT = 120
"""Seconds, so that a program that hangs fails its test."""
OUTPUTS = [sum(a * b for a, b in zip(row, COEFFICIENTS, strict=True)) for row in ((1, 2, 3, 4), (5, 6, 7, 8))]


@dataclass(frozen=True, slots=True)
class Served:
    documents: dict[str, Path]
    """As the plane serves them, by the name of the API."""
    words: tuple[str, ...]
    """What programs need to know: two URLs, a token and a model's file."""


@pytest.fixture(scope="module")
def served(plane: planes.TestPlane, tmp_path_factory: pytest.TempPathFactory) -> Served:
    folder = tmp_path_factory.mktemp("served")
    documents = {}
    for name, url in (("control", plane.control_url), ("inference", plane.inference_url)):
        answer = httpx2.get(f"{url}/openapi.json", headers={"authorization": f"Bearer {plane.token()}"})
        documents[name] = folder / f"{name}.json"
        documents[name].write_bytes(answer.raise_for_status().content)
    model = models.save_weigher(folder / "model.joblib")
    return Served(documents, (plane.control_url, plane.inference_url, plane.token(), str(model)))


@pytest.fixture(scope="module")
def packages(served: Served, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("python")
    return [generated_clients.write_python(name, path, folder) for name, path in served.documents.items()]


def test_a_plane_serves_what_make_clients_reads(served: Served) -> None:
    for name, document in served.documents.items():
        assert document.read_bytes() == generated_clients.DOCUMENTS[name].read_bytes()


def test_every_operation_is_a_module_in_python(served: Served, packages: list[Path]) -> None:
    for package, document in zip(packages, served.documents.values(), strict=True):
        described = json.loads(document.read_text())
        wanted = [operation["operationId"] for path in described["paths"].values() for operation in path.values()]
        made = {module.stem.replace("_", "") for module in package.rglob("api/*/[!_]*.py")}
        assert made == {name.lower() for name in wanted}


def test_python(served: Served, packages: list[Path]) -> None:
    python, paths = generated_clients.PYTHON / "python", os.pathsep.join(map(str, packages))
    seen = json.loads(_run(python, PROGRAMS / "calls.py", *served.words, PYTHONPATH=paths))
    assert seen["registered"] == {
        "created": "generated", "version": "1", "current": "1", "listed": ["generated"], "servers": [True],
    }  # fmt: skip
    merged, stepped = {"merge": "1"}, {"merge": "1", "steps": "2"}
    applied = {"merge": "1", "steps": "2", "apply": "3"}
    assert seen["patched"] == [merged, stepped, applied, applied]
    predicted = seen["predicted"]
    assert predicted.pop("outputs") == [pytest.approx(OUTPUTS), pytest.approx(OUTPUTS)]
    assert predicted == {
        "id": "mine", "version": "1", "platform": "sklearn", "ready": True, "server": "mizzen",
        "refused": [400, "header Mizzen-Timeout-Ms: expected a positive number"], "missing": "no model 'nobody'",
    }  # fmt: skip
    assert seen["refused"] == {
        "missing": [404, "NotFound", 404], "taken": "AlreadyExists", "bad token": "Unauthorized",
    }  # fmt: skip
    assert seen["deleted"] == {"in the way": "Conflict", "deleted": "generated", "left": []}


def test_python_types(packages: list[Path], tmp_path: Path) -> None:
    checked = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent",
            "--cache-dir", str(tmp_path), "--python-executable", str(generated_clients.PYTHON / "python"),
            str(PROGRAMS / "calls.py"), str(PROGRAMS / "wrong.py"),
        ],
        env={**os.environ, "MYPYPATH": os.pathsep.join(map(str, packages))},
        cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    faults = re.findall(r"(\w+\.py):\d+: error: (.*)", checked.stdout)
    assert [file for file, _ in faults] == ["wrong.py", "wrong.py"], checked.stdout
    assert ["frameworks" in faults[0][1], '"shape"' in faults[1][1]] == [True, True]


def test_typescript(served: Served, tmp_path: Path) -> None:
    for name, path in served.documents.items():
        generated_clients.write_types(name, path, tmp_path)
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for program in PROGRAMS.glob("*.ts"):
        shutil.copy(program, tmp_path)
    flags = ("--strict", "--exactOptionalPropertyTypes", "--skipLibCheck", "--target", "es2022", "--module", "nodenext")
    checked = subprocess.run(
        [str(MODULES / ".bin/tsc"), *flags, "--types", "node", "--outDir", "out", "calls.ts", "wrong.ts"],
        cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    faults = re.findall(r"(\w+\.ts)\(\d+,\d+\): error (.*)", checked.stdout)
    assert [file for file, _ in faults] == ["wrong.ts", "wrong.ts"], checked.stdout
    assert ["'frameworks'" in faults[0][1], "'input'" in faults[1][1]] == [True, True]
    seen = json.loads(_run("node", "out/calls.js", *served.words, cwd=tmp_path))
    assert [pytest.approx(OUTPUTS)] == seen.pop("outputs")
    assert seen == {
        "created": "typed", "version": "1", "current": "1", "platform": "sklearn", "unready": "no model 'nobody'",
        "missing": [404, "NotFound"], "left": [],
    }  # fmt: skip


def _run(*words: Any, cwd: Path | None = None, **environ: str) -> str:
    done = subprocess.run(
        list(map(str, words)), env={**os.environ, **environ}, cwd=cwd, capture_output=True, text=True, timeout=LIMIT,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{words[0]} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
