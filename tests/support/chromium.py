"""A real Chromium for a test, driven by chromedriver over HTTP: a fresh profile, no network but loopback."""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import planes

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
    "--no-proxy-server", "--hide-scrollbars",
)  # fmt: skip
WIDE, PHONE = (1280, 900), (390, 844)


@dataclass(frozen=True, slots=True)
class Browser:
    """One window of it."""

    session: httpx2.Client

    def open(self, url: str) -> None:
        self._ask("url", {"url": url})

    def run(self, script: str, *values: Any) -> Any:
        """What `script`, the body of a function, returns."""
        return self._ask("execute/sync", {"script": script, "args": list(values)})

    def text(self) -> str:
        """All that can be read in it, also in elements that hide what is inside them from the page."""
        return str(self.run(_ALL_TEXT))

    def wait_for(self, *texts: str) -> None:
        def there() -> bool:
            text = self.text()
            return all(each in text for each in texts)

        planes.wait_until(there, f"the page shows {', '.join(texts)}")

    def cookies(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.session.get("cookie").raise_for_status().json()["value"]
        return found

    def complaints(self) -> list[str]:
        """What its console tells as errors, since the last time."""
        logged = self._ask("se/log", {"type": "browser"})
        return [entry["message"] for entry in logged if entry["level"] == "SEVERE"]

    def look(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """From now on with a window of this size."""
        width, height = size
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=size == PHONE
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, file: Path) -> None:
        """Once nothing moves any more."""
        file.parent.mkdir(parents=True, exist_ok=True)
        seen = [""]

        def still() -> bool:
            seen.append(self.session.get("screenshot").raise_for_status().json()["value"])
            return seen[-1] == seen[-2]

        planes.wait_until(still, "nothing moves")
        file.write_bytes(base64.b64decode(seen[-1]))

    def devtools(self, command: str, **params: Any) -> Any:
        return self._ask("goog/cdp/execute", {"cmd": command, "params": params})

    def _ask(self, path: str, body: Mapping[str, Any]) -> Any:
        answer = self.session.post(path, json=dict(body))
        assert answer.is_success, f"{path}: {answer.text[:2000]}"
        return answer.json()["value"]


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Skips the test where there is none."""
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium here: 'apt install chromium chromium-driver' (or chromedriver) brings it")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        port = Path(folder, "port")
        command = [driver, "--port=0", f"--log-path={folder}/log"]
        with port.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=subprocess.DEVNULL) as process:
            try:
                with _session(_address(port), chromium, Path(folder, "profile")) as session:
                    yield Browser(session)
            finally:
                process.terminate()


@contextlib.contextmanager
def _session(address: str, chromium: str, profile: Path) -> Iterator[httpx2.Client]:
    options = {"binary": chromium, "args": [*FLAGS, f"--user-data-dir={profile}"]}
    wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    with httpx2.Client(base_url=address, timeout=60, trust_env=False) as driver:
        answer = driver.post("/session", json={"capabilities": {"alwaysMatch": wanted}})
        assert answer.is_success, answer.text
        place = f"/session/{answer.json()['value']['sessionId']}"
        try:
            with httpx2.Client(base_url=f"{address}{place}/", timeout=60, trust_env=False) as session:
                yield session
        finally:
            driver.delete(place)


def _address(said: Path) -> str:
    """It picks a free port, and says which."""

    def port() -> str:
        _, _, rest = said.read_text().partition("started successfully on port ")
        return rest.partition(".")[0]

    return f"http://127.0.0.1:{planes.wait_until(port, 'chromedriver says its port')}"


_ALL_TEXT = """
const told = [];
(function read(node) {
  if (node.nodeType === Node.TEXT_NODE) told.push(node.textContent);
  if (["SCRIPT", "STYLE"].includes(node.nodeName)) return;
  if (node.shadowRoot) read(node.shadowRoot);
  node.childNodes.forEach(read);
})(document.body);
return told.join(" ");
"""
