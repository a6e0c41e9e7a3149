"""An unmodified kubectl of one release, as somebody uses it against a plane: with a home of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
RELEASES = ("kubectl-newest", "kubectl-older")
API_VERSION = "mizzen.dev/v1alpha1"
LIMIT = 60
"""Seconds, so that a kubectl that hangs fails its test."""


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Kubectl:
    release: str
    home: Path
    """Where it keeps what it discovered; `kubeconfig` is in it."""
    namespace: str = "default"

    def __call__(self, *words: str, sent: Any = None, code: int = 0, **environ: str) -> Done:
        """`sent`: documents for `-f -`. Fails unless it exits with `code`."""
        done = self.tried(*words, sent=sent, **environ)
        assert done.code == code, f"kubectl {' '.join(words)} exited {done.code}\n{done.out}\n{done.err}"
        return done

    def tried(self, *words: str, sent: Any = None, **environ: str) -> Done:
        done = subprocess.run(
            self._command(words), env=self._environ() | environ, input=_text(sent), cwd=self.home, capture_output=True,
            text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json").out)

    @contextlib.contextmanager
    def going(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """It runs meanwhile, and has ended afterwards."""
        with subprocess.Popen(
            self._command(words), env=self._environ(), cwd=self.home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, text=True,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def within(self, namespace: str) -> Kubectl:
        return replace(self, namespace=namespace)

    def _command(self, words: tuple[str, ...]) -> list[str]:
        program = CHECKOUT / ".venvs" / self.release / "bin" / "kubectl"
        return [str(program), "--namespace", self.namespace, *words]

    def _environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": str(self.home / "kubeconfig"),
            "TMPDIR": str(self.home),
        }  # fmt: skip


def model(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """The smallest object there is; who adds `spec` says what it is about."""
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": API_VERSION, "kind": "Model", "metadata": metadata, "spec": spec or {"framework": "sklearn"}}


def version(of: str, number: str) -> dict[str, Any]:
    """A version of a model that needs no files."""
    spec = {"modelName": of, "version": number, "framework": "sklearn", "image": f"example.com/{of}:{number}"}
    return {"apiVersion": API_VERSION, "kind": "ModelVersion", "metadata": {"name": f"{of}.{number}"}, "spec": spec}


def server(name: str, **spec: Any) -> dict[str, Any]:
    """An InferenceModel that needs no model, and never becomes ready here: nothing runs its image."""
    said = {"modelName": "iris", "deployToLayer": "cloud", "frameworkType": "sklearn", "image": "example.com/iris:1"}
    return {"apiVersion": API_VERSION, "kind": "InferenceModel", "metadata": {"name": name}, "spec": said | spec}


def _text(sent: Any) -> str:
    if sent is None:
        return ""
    return str(yaml.safe_dump_all(sent if isinstance(sent, list) else [sent]))
