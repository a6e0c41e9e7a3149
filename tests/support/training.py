"""Job sets on a real plane, as somebody with an HTTP client sees them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from mizzen.runs.paths import JobPlace
from tests.support import planes

ENDS = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Trainer:
    """One model of a plane, and the code that its versions hold."""

    plane: planes.TestPlane
    model: str

    @property
    def http(self) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.plane.token()}"}
        return httpx2.Client(base_url=self.plane.control_url, headers=headers, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        with self.http as client:
            return client.request(method, path, json=body, **more)

    def got(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Its JSON; an answer that is none of 2xx fails the test with its words."""
        answer = self.ask(method, path, body, **more)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def version(self, files: Mapping[str, str], **said: Any) -> str:
        """Registers these files, dedented, as the next version; its number. The model is made at the first."""
        self.ask("POST", "/model", {"name": self.model})
        folder = self.plane.data_dir.parent / f"code-{self.model}"
        number = len(list(folder.glob("*"))) if folder.exists() else 0
        for name, text in files.items():
            file = folder / str(number) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))
        body = {"path": str(folder / str(number)), "training": True, **said}
        made: dict[str, Any] = self.got("POST", f"/model/{self.model}/version/auto", body)
        return str(made["version"])

    def start(self, version: str, **spec: Any) -> Job:
        made = self.got("POST", f"/model/{self.model}/train/{version}", spec)
        return Job(self, version, made["id"])

    def script(self, code: str, **spec: Any) -> Job:
        """One version with this `train.py`, and a job of it."""
        return self.start(self.version({"train.py": code}), **spec)


@dataclass(frozen=True, slots=True)
class Job:
    trainer: Trainer
    version: str
    id: str

    @property
    def path(self) -> str:
        return f"/model/{self.trainer.model}/train/{self.version}/{self.id}"

    def now(self) -> dict[str, Any]:
        found: dict[str, Any] = self.trainer.got("GET", self.path)
        return found

    @property
    def state(self) -> str:
        return str(self.now()["state"])

    def until(self, condition: Callable[[dict[str, Any]], Any], what: str, timeout: float = 120.0) -> dict[str, Any]:
        seen: list[dict[str, Any]] = []

        def look() -> bool:
            seen[:] = [self.now()]
            return bool(condition(seen[0]))

        try:
            planes.wait_until(look, what, timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{json.dumps(seen, indent=1)}\n{self.logs()[-2000:]}") from error
        return seen[0]

    def until_state(self, *states: str, timeout: float = 120.0) -> dict[str, Any]:
        return self.until(lambda now: now["state"] in states, f"{self.id} is {' or '.join(states)}", timeout)

    def ended(self, timeout: float = 120.0) -> dict[str, Any]:
        """Once it has; whatever the end. It has one, and is not said to run."""
        now = self.until_state(*ENDS, timeout=timeout)
        true = [each["type"] for each in now["status"]["conditions"] if each["status"] == "True"]
        running = {"Running", "Restarting", "Suspended", "Queued"}
        assert len(set(true) & set(ENDS)) == 1, true
        assert not running & set(true), true
        return now

    def why(self) -> tuple[str, str]:
        """Reason and message of how it ended."""
        now = self.ended()
        told = next(each for each in now["status"]["conditions"] if each["type"] == now["state"])
        return told["reason"], told["message"]

    def logs(self, **query: Any) -> str:
        answer = self.trainer.ask("GET", f"{self.path}/logs", params=query)
        assert answer.status_code == 200, answer.text
        return answer.text

    def printed(self, **query: Any) -> list[str]:
        """Lines without the name of the replica, which has to be there."""
        lines = self.logs(**query).splitlines()
        assert all(line.startswith("[") and "] " in line for line in lines), lines[:5]
        return [line.partition("] ")[2] for line in lines]

    @property
    def checkpoints(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.trainer.got("GET", f"{self.path}/checkpoint")["items"]
        return found

    def stop(self) -> dict[str, Any]:
        found: dict[str, Any] = self.trainer.got("DELETE", self.path)
        return found

    @property
    def place(self) -> JobPlace:
        """Where its files lie."""
        stored = self.trainer.got("GET", f"/apis/mizzen.dev/v1alpha1/namespaces/default/trainingjobs/{self.id}")
        return JobPlace(self.trainer.plane.data_dir, stored["metadata"]["uid"])

    def wait_for_line(self, text: str) -> None:
        planes.wait_until(lambda: text in self.logs(), f"{self.id} prints {text!r}")


def folder_of(plane: planes.TestPlane, name: str) -> Path:
    folder = plane.data_dir.parent / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
