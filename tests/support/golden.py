"""Texts that people read, kept in one file per surface: tests/golden/<surface>.json.

A test says `golden.check(text)`; the file has the expected texts of each test in their order. When a wording changes,
`pytest --update-golden tests/unit tests/component` rewrites the files, and the diff shows every text that changed.
"""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "golden"

Texts = dict[str, list[str]]


class Golden:
    """The texts of one test, which is `folder/module::name` within its surface."""

    def __init__(self, surface: str, test: str, *, update: bool) -> None:
        self._path = FOLDER / f"{surface}.json"
        self._test = test
        self._update = update
        self._seen: list[str] = []

    def check(self, text: str) -> None:
        """The next text of this test is exactly this one."""
        self._seen.append(text)
        if not self._update:
            expected = _load(self._path).get(self._test, [])[: len(self._seen)]
            assert self._seen == expected, f"see {self._path}; --update-golden accepts it"

    def close(self) -> None:
        """Write what the test said, when asked to; else demand that it said all of it."""
        texts = dict(_load(self._path))
        if self._update:
            texts[self._test] = self._seen
            _save(self._path, texts)
        else:
            assert self._seen == texts.get(self._test, []), "the golden file has more texts of this test"


_loaded: dict[Path, Texts] = {}


def _load(path: Path) -> Texts:
    if path not in _loaded:
        _loaded[path] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return _loaded[path]


def _save(path: Path, texts: Texts) -> None:
    _loaded[path] = texts
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(texts, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
