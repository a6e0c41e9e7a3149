"""Prometheus itself, unmodified, scrapes a busy plane: its linter is content, its rules load, and every query of the
dashboard and of the rules is answered.
"""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.conformance.kubectl import CHECKOUT
from tests.support import caller, load, planes
from tests.support.collector import collecting
from tools.derived import dashboard

BIN = CHECKOUT / ".venvs" / "prometheus" / "usr" / "bin"
DEPLOY = CHECKOUT / "deploy" / "prometheus"
RULES = DEPLOY / "mizzen-rules.yml"
MODEL = f"""
def predict(inputs):
    rows = inputs["input"]
    if (rows == 666).any():
        raise RuntimeError("poisoned")
    return rows @ {[*caller.COEFFICIENTS]}
"""
QUIET = ("mizzen_reconcile_queue_length", "mizzen_reconcile_failing")
"""Shown only where there is something to worry about."""
ABSENT = ("mizzen_cache_", "mizzen_default_answers_")
"""Of servers with a cache or a default, which this one has not: there is nothing to show, and the query is right."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    folder = tmp_path_factory.mktemp("scraped")
    (folder / "weigh.py").write_text(MODEL)
    (folder / "data").mkdir(mode=0o700)
    with collecting() as collector:
        (folder / "data" / "settings.toml").write_text(f'otel_endpoint = "{collector.url}"\n')
        yield from _busy(folder)


def _busy(folder: Path) -> Iterator[planes.TestPlane]:
    with planes.running_plane(folder / "data", "--gateways", "2") as running:
        running.cli("deploy", "weigh:predict", "--name", "weigher", cwd=folder)
        tensor = {"name": "input", "datatype": "FP64", "shape": [1, 4], "data": [666.0] * 4}
        for name, code in (("weigher", 500), ("nobody", 404)):
            answer = httpx2.post(f"{running.inference_url}/v2/models/{name}/infer", json={"inputs": [tensor]})
            assert answer.status_code == code
        yield running


@pytest.fixture(scope="module")
def prometheus(plane: planes.TestPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A server that scrapes the plane four times a second, while somebody asks the model."""
    folder = tmp_path_factory.mktemp("prometheus")
    config: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "250ms", "evaluation_interval": "250ms"}
    config["rule_files"] = [str(RULES)]
    for job, url in zip(config["scrape_configs"], (plane.control_url, plane.inference_url), strict=True):
        job["static_configs"] = [{"targets": [url.removeprefix("http://")]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = [
        str(BIN / "prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={address}",
    ]  # fmt: skip
    with (
        (folder / "log").open("wb") as log,
        _ended(subprocess.Popen(words, stdout=log, stderr=log)),
        httpx2.Client(base_url=f"http://{address}") as client,
    ):
        planes.wait_until(lambda: _ready(client), f"Prometheus answers; its log: {folder}/log")
        with load.steady_load(f"{plane.inference_url}/v2/models/weigher/infer", rate=50) as asking:
            yield client
    assert not asking.report.wrong


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _ready(client: httpx2.Client) -> bool:
    with contextlib.suppress(httpx2.HTTPError):
        return client.get("/-/ready").status_code == 200
    return False


def asked(prometheus: httpx2.Client, query: str) -> list[Any]:
    answer = prometheus.get("/api/v1/query", params={"query": query})
    assert answer.status_code == 200, f"{query}\n{answer.text}"
    found: list[Any] = answer.json()["data"]["result"]
    return found


def promtool(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    assert BIN.is_dir(), "make test-conformance sets it up"
    return subprocess.run([str(BIN / "promtool"), *words], input=given, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", ["control", "inference"])
def test_promtool_finds_nothing_wrong_with_what_is_scraped(
    plane: planes.TestPlane, prometheus: httpx2.Client, path: str
) -> None:
    url = plane.control_url if path == "control" else plane.inference_url
    text = httpx2.get(f"{url}/metrics").raise_for_status().text
    done = promtool("check", "metrics", given=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_takes_the_files_that_are_shipped() -> None:
    done = promtool("check", "config", str(DEPLOY / "prometheus.yml"))
    assert done.returncode == 0, done.stderr
    assert "SUCCESS" in promtool("check", "rules", str(RULES)).stdout


def test_both_doors_are_scraped(prometheus: httpx2.Client) -> None:
    def up() -> bool:
        return sorted(each["value"][1] for each in asked(prometheus, "up")) == ["1", "1"]

    planes.wait_until(up, "both targets are up")


@pytest.mark.parametrize("query", [*dashboard.queries()])
def test_a_query_of_the_dashboard_is_answered(prometheus: httpx2.Client, query: str) -> None:
    if query.startswith("sum") and any(name in query for name in QUIET):
        query = query.removesuffix("> 0")
    if any(name in query for name in ABSENT):
        assert asked(prometheus, query) == []
        return
    planes.wait_until(lambda: asked(prometheus, query), query)


def test_every_series_that_rules_name_is_there(prometheus: httpx2.Client) -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    named = {name for rule in rules for name in re.findall(r"\bmizzen_\w+", re.sub(r"\w+:\w+:\w+", "", rule["expr"]))}
    assert named
    for name in sorted(named | recorded):
        planes.wait_until(lambda name=name: asked(prometheus, name), name)  # type: ignore[misc]
    firing = prometheus.get("/api/v1/rules").json()["data"]["groups"]
    assert {rule["health"] for group in firing for rule in group["rules"]} == {"ok"}
