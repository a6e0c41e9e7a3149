"""The environments of the peers: made when they are missing, from hashed requirements, before anything is measured."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

from bench.peers.lineup import INSTALLED, PROGRAMS, venv
from bench.peers.server import ROOT, last_words

REQUIREMENTS = Path(__file__).with_name("requirements")


class NotInstalled(Exception):
    """The message says why a peer cannot take part."""


def provide(peer: str, models: Path) -> None:
    """Return when the environment is as its requirements say, and holds what the peer needs of its own."""
    if peer not in INSTALLED:
        return
    done = subprocess.run(
        [ROOT / "tools" / "venv.sh", venv(peer).relative_to(ROOT), REQUIREMENTS / f"{peer}.txt"],
        env=os.environ | {"PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotInstalled(last_words(done.stderr))
    if peer == "mlflow":
        _write_folders(models)


def versions(peers: list[str]) -> dict[str, str]:
    """Of each peer, and of what all of them share."""
    found = {"scikit-learn": importlib.metadata.version("scikit-learn")}
    for peer in peers:
        if peer in INSTALLED:
            text = (REQUIREMENTS / f"{peer}.txt").read_text()
            found[peer] = version_in(text, peer)
        elif peer == "nginx":
            said = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=False, env=_with_sbin()).stderr
            found[peer] = said.strip().rpartition("/")[2] or "?"
        else:
            found[peer] = importlib.metadata.version(peer)
    return found


def version_in(requirements: str, package: str) -> str:
    """As the hashed file pins it."""
    pinned = re.search(rf"^{re.escape(package)}(?:\[\w+\])?==(\S+)", requirements, re.MULTILINE)
    return pinned[1] if pinned else "?"


def _write_folders(models: Path) -> None:
    """MLflow serves folders that it wrote itself; from the same model files as all."""
    if (models / "mlflow").exists():
        return
    clean = {"HOME": str(models), "PATH": os.environ.get("PATH", ""), "MLFLOW_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(
        [venv("mlflow") / "bin" / "python", PROGRAMS / "mlflow_models.py", models],
        env=clean | {"MLFLOW_TRACKING_URI": f"sqlite:///{models}/mlflow.db", "DO_NOT_TRACK": "true"},
        cwd=models,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotInstalled(f"it cannot write its models: {last_words(done.stderr)}")


def _with_sbin() -> dict[str, str]:
    return os.environ | {"PATH": os.environ.get("PATH", "") + ":/usr/sbin"}
