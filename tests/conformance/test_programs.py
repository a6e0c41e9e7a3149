"""What runs the programs of client libraries: no program passes that does not do what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.programs import each

PASSES = "def a_step(namespace): assert namespace == 'program_passes-a-step'\n"
FAILS = "async def another(namespace): found = 3; assert found == 4\n"
HELPS = "from json import dumps\ndef _private(): raise ValueError\n"


@pytest.mark.parametrize(
    ("name", "text", "code", "told"),
    [
        ("program_passes", PASSES + HELPS, 0, "1 steps, failed: none"),
        ("program_fails", FAILS, 1, "found = 3"),
        ("program_half_fails", FAILS + "def last(namespace): pass\n", 1, "2 steps, failed: another"),
        ("program_without_steps", HELPS, 1, "0 steps"),
    ],
)
def test_a_program_passes_when_all_its_steps_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    code: int,
    told: str,
) -> None:
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert each.main(name) == code
    assert told in capsys.readouterr().out
