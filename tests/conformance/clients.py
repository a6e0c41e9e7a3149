"""Unmodified client libraries, each in its own environment: programs that use them, run against a plane."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import httpx2

from tests.conformance.kubectl import API_VERSION, CHECKOUT
from tests.support import planes

PROGRAMS = "tests.conformance.programs"
LIMIT = 60
"""Seconds, so that a program that hangs fails its test."""


@dataclass(frozen=True, slots=True)
class Library:
    """Of one venv; its programs are in `programs/with_<venv>/`."""

    venv: str
    home: Path
    """`kubeconfig` is the admin's, `kubeconfig-ann` of somebody who may little, `kubeconfig-wrong` of nobody."""

    def __call__(self, program: str) -> None:
        """Fails with all that the program printed."""
        done = self.tried(f"{PROGRAMS}.with_{self.venv}.{program}")
        assert done.returncode == 0, f"{program} exited {done.returncode}\n{done.stdout}\n{done.stderr}"

    def tried(self, module: str) -> subprocess.CompletedProcess[str]:
        python = CHECKOUT / ".venvs" / self.venv / "bin" / "python"
        assert python.exists(), "make test-conformance sets up the clients"
        kubeconfig = str(self.home / "kubeconfig")
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": kubeconfig}
        return subprocess.run(
            [str(python), "-m", f"{PROGRAMS}.each", module], cwd=CHECKOUT, env=environ, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip


def programs_of(venv: str) -> list[str]:
    folder = CHECKOUT / "tests" / "conformance" / "programs" / f"with_{venv}"
    return sorted(path.stem for path in folder.glob("*.py") if path.stem != "session")


def set_up(plane: planes.TestPlane, venv: str) -> Library:
    """With ann, who may read what is in the namespace `shared`, and write nothing."""
    home = plane.data_dir.parent / venv
    home.mkdir()
    with httpx2.Client(base_url=plane.control_url, headers={"authorization": f"Bearer {plane.token()}"}) as admin:
        admin.post("/user", json={"name": "ann"}).raise_for_status()
        ann = admin.post("/user/ann/token", json={}).raise_for_status().json()["token"]
        spec = {"subjects": ["ann"], "verbs": ["read"], "target": {"namespace": "shared"}}
        binding = {"apiVersion": API_VERSION, "kind": "RoleBinding", "metadata": {"name": "ann"}, "spec": spec}
        admin.post(f"/apis/{API_VERSION}/namespaces/shared/rolebindings", json=binding).raise_for_status()
    admins = plane.cli("kubeconfig").stdout
    assert plane.token() in admins
    for name, token in (("kubeconfig", plane.token()), ("kubeconfig-ann", ann), ("kubeconfig-wrong", "mzn_nobody")):
        (home / name).write_text(admins.replace(plane.token(), token))
        (home / name).chmod(0o600)
    return Library(venv, home)
