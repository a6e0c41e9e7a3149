"""What environments are made of and by: names, tools, interpreters, what they say; without building one."""

from __future__ import annotations

import ast
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mizzen.engines.local.environments import build_output, installers, interpreters, runtime_bundle
from mizzen.engines.local.environments.lifecycle import retry_after
from mizzen.engines.local.environments.spec import EnvironmentPaths, Recipe
from mizzen.engines.local.process_specs import BuiltEnvironment, WorkloadPaths, process_of
from mizzen.kinds.text.requirements import OLDEST
from mizzen.kinds.workload import Environment, WorkloadSpec
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.protocol import ProcessSpec

OURS = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_numpy_is_added_where_it_is_missing() -> None:
    assert Recipe.of(Environment(requirements=("a",))).requirements == ("a", "numpy")
    assert Recipe.of(Environment(requirements=("NumPy<2",))).requirements == ("numpy<2",)
    assert Recipe.of(Environment()).python == OURS


def test_the_same_packages_for_the_same_python_are_one_environment() -> None:
    def key(*lines: str, python: str = "") -> str:
        return Recipe.of(Environment(requirements=lines, python=python)).key

    assert key("a", "b >= 1") == key("B>=1", "a", "numpy") == key("a", "b>=1", python=OURS)
    assert len({key("a"), key("b"), key("a", python="3.99"), key("a==1")}) == 4


def test_another_release_has_a_folder_of_its_own(tmp_path: Path) -> None:
    package = tmp_path / "package"
    for name in ("protocol", "runtime"):
        (package / name).mkdir(parents=True)
    for name in ("__init__.py", "frameworks.py", "plugins.py", "runtime/a.py"):
        (package / name).write_text("one")
    first = runtime_bundle.lay_out_runtime(tmp_path / "d", package)
    (package / "runtime" / "a.py").write_text("two")
    second = runtime_bundle.lay_out_runtime(tmp_path / "d", package)
    assert first != second
    assert (first / "mizzen" / "runtime" / "a.py").read_text() == "one"


def test_packages_are_not_told_what_the_plane_was_started_with() -> None:
    known = installers.filter_environment({
        "PATH": "/bin", "HOME": "/h", "UV_INDEX_URL": "u", "PIP_INDEX_URL": "p", "https_proxy": "x",
        "SSL_CERT_FILE": "c", "MIZZEN_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "s", "DATABASE_URL": "d",
        "PYTHONPATH": "/ours", "PIP_TARGET": "/elsewhere", "UV_PYTHON_DOWNLOADS": "automatic", "UV_SYSTEM_PYTHON": "1",
        "MIZZEN_PROCESS_KEY": "k",
    })  # fmt: skip
    assert known == {
        "PATH": "/bin", "HOME": "/h", "UV_INDEX_URL": "u", "PIP_INDEX_URL": "p", "https_proxy": "x",
        "SSL_CERT_FILE": "c", "MIZZEN_PROCESS_KEY": "k",
        "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def test_which_tool_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installers.choose_tool("auto", os.environ) == "uv"
    assert installers.choose_tool("pip", os.environ) == "pip"
    monkeypatch.setattr(installers, "find_uv", lambda _environ: None)
    assert installers.choose_tool("auto", {}) == "pip"
    with pytest.raises(installers.NoTool, match=r"mizzen\[environments\]"):
        installers.choose_tool("uv", {})


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_a_folder_of_wheels_is_all_that_is_asked(tool: str, tmp_path: Path) -> None:
    place = EnvironmentPaths(tmp_path, "k")
    listed = tmp_path / "r"
    for build in (False, True):
        install = installers.install_command(tool, place, listed, wheels="/wheels", environ=os.environ, build=build)
        assert install[install.index("--no-index") :][:3] == ["--no-index", "--find-links", "/wheels"]
        install = installers.install_command(tool, place, listed, wheels="", environ=os.environ, build=build)
        assert "--no-index" not in install


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_a_wheel_is_installed_without_any_code_of_it(tool: str, tmp_path: Path) -> None:
    place = EnvironmentPaths(tmp_path, "k")

    def command(*, build: bool) -> list[str]:
        return installers.install_command(tool, place, tmp_path / "r", wheels="", environ=os.environ, build=build)

    assert {"--no-build", "--only-binary"} & set(command(build=False))
    assert not {"--no-build", "--only-binary"} & set(command(build=True))


def test_our_own_python_is_found_without_looking() -> None:
    for wanted in (OURS, f"{OURS}.{sys.version_info.micro}"):
        assert interpreters.find(wanted, {}).path == sys.executable


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Resolved 12 packages in 1.2s", "downloading 12 packages"),
        ("Downloading numpy (15.7MiB)", "downloading numpy (15.7MiB)"),
        ("  Downloading https://host/files/numpy-2.0-cp311.whl (18.2 MB)", None),
        ("Prepared 1 package in 3s", "installing 1 package"),
        ("Collecting scikit-learn==1.5.2 (from -r requirements.txt)", "resolving scikit-learn"),
        ("Installing collected packages: a, b, c", "installing 3 packages"),
        ("   Building thing==1.0", "building thing==1.0 from source"),
        ("Using Python 3.11.7 environment at: x", None),
    ],
)
def test_how_far_it_is(line: str, step: str | None) -> None:
    assert build_output.parse_step(line) == step


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (
            "Using Python 3.11.7 environment at: x\nerror: No solution found\n  cause: Because a was not found\n",
            "No solution found cause: Because a was not found (check the name, and that this version exists for this "
            "Python and this machine)",
        ),
        (
            "  \u00d7 Failed to fetch: `https://host/simple/a/`\n  \u2570\u2500\u25b6 dns error\n",
            "Failed to fetch: `https://host/simple/a/` dns error (the package index cannot be reached from the plane's "
            "machine: configure uv or pip there, or give the plane a folder of wheels with the setting "
            "environment_wheels)",
        ),
        ("Looking in links: /w\nERROR: No matching distribution found for a==9\n[notice] update", None),
        ("", "it printed nothing"),
    ],
)
def test_why_it_gave_up(printed: str, why: str | None) -> None:
    told = build_output.explain_failure(printed.splitlines())
    assert (
        told == why if why is not None else told.startswith("No matching distribution found for a==9 (check the name")
    )


def test_it_is_tried_again_ever_more_rarely() -> None:
    assert [retry_after(attempt) for attempt in (0, 1, 2, 20)] == [10, 20, 40, 3600]


def test_what_runs_in_an_environment_finds_that_and_the_runtime(tmp_path: Path) -> None:
    def process(built: BuiltEnvironment) -> ProcessSpec:
        given = {"purpose": "serve", "command": ["python", "-m", "mizzen.runtime"], "env": {"PYTHONPATH": "/theirs"}}
        spec = WorkloadSpec.model_validate(given)
        return process_of(spec, WorkloadPaths(Home.of(tmp_path), "u"), 0, python="/ours/python", built=built)

    built = BuiltEnvironment("k", "/envs/k/bin/python", "/runtime/1", safe_path=True)
    first = process(built)
    assert first.argv == ("/envs/k/bin/python", "-P", "-m", "mizzen.runtime")
    assert first.varying["PYTHONPATH"] == "/runtime/1:/theirs"
    assert (first.varying["PYTHONHOME"], first.env["MIZZEN_ENVIRONMENT"]) == ("", "k")
    assert "PYTHONPATH" not in first.env, "it would win"
    assert process(replace(built, safe_path=False)).argv[:2] == ("/envs/k/bin/python", "-m"), "3.10 knows no -P"
    assert process(replace(built, parts="/runtime/2")).fingerprint == first.fingerprint, "another release restarts none"


def test_what_the_runtime_is_made_of_is_no_newer_than_the_oldest_python(tmp_path: Path) -> None:
    """Interpreters of that age are not everywhere: what they lack is looked for."""
    newer = {
        "typing": {"Self", "Never", "LiteralString", "assert_never", "override", "Unpack", "TypeVarTuple"},
        "enum": {"StrEnum"}, "datetime": {"UTC"}, "asyncio": {"TaskGroup", "timeout"}, "contextlib": {"chdir"},
    }  # fmt: skip
    for file in runtime_bundle.lay_out_runtime(tmp_path).rglob("*.py"):
        tree = ast.parse(file.read_text(), feature_version=OLDEST)
        typing_only = {
            inner for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" for inner in node.body
        }  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node not in typing_only:
                found = {name.name for name in node.names} & newer.get(node.module or "", set())
                assert not found, f"{file.name}: {found}"
            if isinstance(node, ast.Import):
                assert "tomllib" not in {name.name for name in node.names}, file.name
            assert not isinstance(node, ast.TryStar), file.name
