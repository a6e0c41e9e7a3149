"""The dashboard and the rules for Prometheus ask for nothing that is not exposed, and are laid out without overlap."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tools.derived import dashboard

ROOT = Path(__file__).resolve().parents[3]
EXPOSED = ("src/mizzen/gateway/telemetry/metrics.py", "src/mizzen/server/admin/metrics.py")
NAME = re.compile(r"\b(?:mizzen|process)_[a-z_]+")
PARTS = re.compile(r"_(?:bucket|sum|count)$")


def test_every_metric_that_is_asked_for_is_exposed() -> None:
    declared = {name for file in EXPOSED for name in re.findall(r'"((?:mizzen|process)_[a-z_]+)"', _read(file))}
    rules = re.sub(r"\w+:\w+:\w+|mizzen-\w+", "", _read("deploy/prometheus/mizzen-rules.yml"))
    asked = {name for text in (*dashboard.queries(), rules) for name in NAME.findall(text)}
    assert {name for name in asked if name not in declared and PARTS.sub("", name) not in declared} == set()
    assert "mizzen_request_seconds_bucket" in asked


def test_every_query_of_the_file_is_one_that_is_tried() -> None:
    panels = json.loads(_read(dashboard.PATH))["panels"]
    written = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(written) == len(list(dashboard.queries()))
    assert all(text.count("{") == text.count("}") for text in written)


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard.dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (column, line)
            for column in range(place["x"], place["x"] + place["w"])
            for line in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= dashboard.COLUMNS
        taken |= cells


def _read(path: str) -> str:
    return (ROOT / path).read_text()
