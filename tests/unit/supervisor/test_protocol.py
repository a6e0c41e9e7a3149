from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.supervisor.processes.process import LONG_RUN, Backoff
from mizzen.supervisor.protocol import Boot, Listener, ProcessSpec, ProcessView, State

SPEC = ProcessSpec(key="a.0", argv=("true",), log="/x.log", env={"A": "b"}, grace=3)


def test_a_spec_survives_the_wire_with_its_fingerprint() -> None:
    back = ProcessSpec.from_json(json.loads(json.dumps(SPEC.to_json())))
    assert back == SPEC
    assert back.fingerprint == SPEC.fingerprint


@pytest.mark.parametrize("change", [{"argv": ["false"]}, {"env": {}}, {"rank": 2}, {"listeners": True}, {"grace": 4}])
def test_every_field_counts_in_the_fingerprint(change: dict[str, object]) -> None:
    assert ProcessSpec.from_json({**SPEC.to_json(), **change}).fingerprint != SPEC.fingerprint


@pytest.mark.parametrize("change", [{"key": "a/b"}, {"key": ""}, {"argv": []}, {"restart": "often"}, {"colour": "red"}])
def test_faulty_specs(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        ProcessSpec.from_json({**SPEC.to_json(), **change})


def test_a_view_survives_the_wire() -> None:
    view = ProcessView("a.0", State.WAITING, "f", restarts=2, exit_code=137, exit_time=1.5, message="é")
    assert ProcessView.from_json(json.loads(json.dumps(view.to_json()))) == view


def test_boot_is_read_as_written(tmp_path: Path) -> None:
    boot = Boot((Listener("control", "127.0.0.1", 0),), (SPEC,), stop_timeout=2.0)
    boot.write(tmp_path / "boot.json")
    assert Boot.read(tmp_path / "boot.json") == boot
    assert (tmp_path / "boot.json").stat().st_mode & 0o777 == 0o600
    assert Boot.read(tmp_path / "absent.json") == Boot()


def test_backoff_begins_at_nothing_and_doubles() -> None:
    backoff = Backoff()
    assert [backoff.after(0) for _ in range(5)] == [0, 0.1, 0.2, 0.4, 0.8]
    assert backoff.after(LONG_RUN + 1) == 0
    assert backoff.after(1) == 0.1


@given(st.lists(st.floats(0, 100), max_size=2000))
def test_backoff_is_bounded_and_a_long_run_resets_it(runs: list[float]) -> None:
    backoff = Backoff()
    delays = [backoff.after(ran) for ran in runs]
    assert all(0 <= delay <= 30 for delay in delays)
    assert all(delay == 0 for ran, delay in zip(runs, delays, strict=True) if ran > LONG_RUN)
