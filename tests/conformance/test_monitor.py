"""TensorBoard and our own comparison, as a person sees them: in a real Chromium, through the plane, with a token.

Pictures of what was seen are left in build/screenshots.
"""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest
from tensorboard.summary import Writer

from mizzen.runs.paths import events
from tests.conformance.kubectl import CHECKOUT
from tests.support import chromium, planes
from tests.support.chromium import PHONE, WIDE, Browser

AT = "/model/digits/monitor"
SHOTS = CHECKOUT / "build" / "screenshots"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def admin(plane: planes.TestPlane) -> Iterator[httpx2.Client]:
    headers = {"authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def monitored(plane: planes.TestPlane, admin: httpx2.Client, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two versions of a model that is trained with PyTorch, and what their jobs logged; TensorBoard answers."""
    admin.post("/model", json={"name": "digits", "framework": "pytorch"}).raise_for_status()
    code = tmp_path_factory.mktemp("code") / "train.py"
    for version, every in (("1", 5), ("2", 3)):
        code.write_text(f"print({version})\n")
        made = admin.post("/model/digits/version", json={"path": str(code), "framework": "python"})
        assert made.json()["version"] == version, made.text
        _train(plane.data_dir, version, every)
    admin.post(AT).raise_for_status()
    planes.wait_until(lambda: admin.get(AT).json()["ready"], "TensorBoard answers")


def _train(data_dir: Path, version: str, every: int) -> None:
    """Event files, where a runner has the code write them; and, of another job, lines of JSON."""
    job = f"digits-{version}-aaaaa"
    writer = Writer(str(events(data_dir, namespace="default", model="digits", version=version, job=job)))
    for count in range(200):
        writer.add_scalar("loss", math.exp(-count / 50) + 0.02 * math.sin(count) + 0.1 * int(version), count * every)
        writer.add_scalar("accuracy", 1 - math.exp(-count / 40) * 0.8, count * every)
    writer.close()
    place = events(data_dir, namespace="default", model="digits", version=version, job=f"digits-{version}-bbbbb")
    place.mkdir(parents=True)
    lines = ({"step": step, "metrics": {"loss": 2 / (step / 100 + 1)}} for step in range(0, 500, 25))
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.usefixtures("monitored")
def test_without_a_token_a_browser_sees_a_form_and_nothing_else(plane: planes.TestPlane, browser: Browser) -> None:
    browser.look(WIDE)
    for path in ("tool/", "page", "login"):
        browser.open(f"{plane.control_url}{AT}/{path}")
        text = browser.text()
        assert "Open the monitor" in text
        assert "aaaaa" not in text
    browser.picture(SHOTS / "monitor-login.png")


@pytest.mark.usefixtures("monitored")
def test_its_own_port_lets_nobody_in_and_the_plane_gets_in_also_after_a_restart(
    plane: planes.TestPlane,
) -> None:
    (process,) = _tensorboards(plane)
    ports = {
        each.laddr.port
        for member in (process, *process.children(recursive=True))
        for each in member.net_connections("tcp")
        if each.status == "LISTEN"
    }
    own = next(word for word in process.cmdline() if word.startswith("--port=")).removeprefix("--port=")
    assert ports == {int(own)}, "nothing else of it listens"
    token = {"authorization": f"Bearer {plane.token()}"}
    for path in ("/", f"{AT}/tool/", f"{AT}/tool/data/runs", f"{AT}/tool/ready"):
        for headers in ({}, token):
            refused = httpx2.get(f"http://127.0.0.1:{own}{path}", headers=headers, trust_env=False)
            assert (refused.status_code, len(refused.text.splitlines())) == (403, 1)
    assert httpx2.get(f"http://127.0.0.1:{own}/ready", trust_env=False).text == "ok\n"
    key = (plane.data_dir / "run" / "show-key").read_text().strip()
    assert key not in " ".join((*process.cmdline(), *process.environ().values()))

    os.kill(plane.pid("plane"), signal.SIGKILL)
    planes.wait_until(lambda: _runs(plane) == ["1/digits-1-aaaaa", "2/digits-2-aaaaa"], "it is seen through the plane")
    assert _tensorboards(plane) == [process]
    assert (plane.data_dir / "run" / "show-key").read_text().strip() == key


def _runs(plane: planes.TestPlane) -> object:
    """Those that TensorBoard has read; None: nobody answers."""
    headers = {"authorization": f"Bearer {plane.token()}"}
    try:
        answer = httpx2.get(f"{plane.control_url}{AT}/tool/data/runs", headers=headers, trust_env=False, timeout=60)
    except httpx2.TransportError:
        return None
    return answer.json()


def _tensorboards(plane: planes.TestPlane) -> list[psutil.Process]:
    return [each for each in planes.members(plane.data_dir) if "mizzen.showing.tensorboard" in each.cmdline()]


@pytest.mark.usefixtures("monitored")
def test_tensorboard_opens_with_a_ticket_and_shows_both_versions(
    plane: planes.TestPlane, admin: httpx2.Client, browser: Browser
) -> None:
    browser.look(WIDE)
    browser.open(admin.post(f"{AT}/ticket").json()["url"])
    assert (
        browser.run("return location.origin + location.pathname + location.search") == f"{plane.control_url}{AT}/tool/"
    )
    browser.wait_for("1/digits-1-aaaaa", "2/digits-2-aaaaa", "loss", "accuracy")
    browser.picture(SHOTS / "monitor-tensorboard.png")
    # Its fonts are asked for at the root of the address, whatever its path is said to be; a system font does.
    complaints = [each for each in browser.complaints() if "/font-roboto/" not in each and "401" not in each]
    assert complaints == []
    assert browser.run("return document.cookie") == ""
    other = "return fetch('/model').then(() => 'answered', () => 'kept back')"
    assert browser.run(other) == "kept back", "its pages may ask nothing but the tool"
    assert any("Content Security Policy" in each for each in browser.complaints())


@pytest.mark.usefixtures("monitored")
def test_our_page_compares_versions_by_step(plane: planes.TestPlane, admin: httpx2.Client, browser: Browser) -> None:
    browser.look(WIDE)
    browser.devtools("Network.clearBrowserCookies")
    browser.open(f"{plane.control_url}{AT}/page")
    enter = "document.querySelector('[name=token]').value = arguments[0]; document.querySelector('button').click()"
    browser.run(enter, plane.token())
    browser.wait_for("version 1", "version 2", "loss", "accuracy", "digits-2-bbbbb", "No version is served")
    assert browser.run("return document.title") == "digits · versions 1, 2 · Mizzen monitor"
    rows = browser.run("return [...document.querySelectorAll('#table tbody tr')].map((row) => row.innerText)")
    lasts = [row.split("\t")[3] for row in rows]
    assert lasts[:2] == ["0.99447 at 995", "0.99447 at 597"], "by step, whatever their positions"
    colours = browser.run(f"return [...document.querySelectorAll('canvas')].map({PAINTED})")
    assert len(colours) == 2
    assert all({"47,126,216", "224,123,0"} <= set(each) for each in colours), "a line of each version in each chart"
    browser.picture(SHOTS / "monitor-page.png")
    browser.run("document.querySelector('#keys button').click()")
    assert "digits-1-aaaaa" not in browser.text()
    browser.look(PHONE, dark=True)
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE[0]
    browser.picture(SHOTS / "monitor-phone.png")
    assert [each for each in browser.complaints() if "401" not in each] == []


@pytest.mark.usefixtures("monitored")
def test_ending_it_leaves_no_process_and_no_way_in(
    plane: planes.TestPlane, admin: httpx2.Client, browser: Browser
) -> None:
    pids = [each.pid for each in _tensorboards(plane)]
    assert pids
    assert admin.delete(f"{AT}?wait=true").json() == {"name": "digits", "deleted": True}
    planes.wait_until(lambda: not any(map(psutil.pid_exists, pids)), "its processes are gone")
    assert admin.get(AT).status_code == 404
    browser.open(f"{plane.control_url}{AT}/tool/")
    assert "has no monitor" in browser.text()


PAINTED = """(canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const found = new Set();
  for (let at = 0; at < pixels.length; at += 4)
    if (pixels[at + 3] > 200) found.add(pixels.slice(at, at + 3).join());
  return [...found];
}"""
