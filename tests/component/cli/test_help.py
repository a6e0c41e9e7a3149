from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HEAVY = {"pydantic", "numpy", "httpx2", "rich", "yaml", "asyncio", "sklearn"}


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['mizzen', '--help']\n"
        "from mizzen.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"loaded = {HEAVY!r} & set(sys.modules)\n"
        "sys.exit(f'imported: {loaded}' if loaded - {'asyncio'} else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deploy" in done.stdout


def test_it_runs_as_a_module_and_tells_its_version() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mizzen.cli.main", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("mizzen 0.")


def test_wrong_usage_is_exit_code_2_of_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mizzen.cli.main", "frob"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.endswith("\n\nerror: No such command 'frob'.\n")
    assert "Traceback" not in done.stderr


def test_a_result_that_nobody_reads_is_no_failure(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "mizzen.cli.main", "down", "--data-dir", str(tmp_path / "none")]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
