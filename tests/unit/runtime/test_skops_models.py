"""skops files: no trust needed for harmless ones; all else is named and refused unless somebody vouches for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from mizzen.runtime.frameworks.model import LoadError
from tests.support.runtime import asking

ROWS = np.arange(12.0).reshape(6, 2) ** 2
TARGETS = ROWS.sum(axis=1)


def dump(model: Any, path: Path) -> None:
    import skops.io  # a second of all those who collect tests

    skops.io.dump(model, path)


class Odd(LinearRegression):  # type: ignore[misc]
    pass


def test_a_harmless_model_needs_no_trust(tmp_path: Path) -> None:
    fitted = LinearRegression().fit(ROWS, TARGETS)
    dump(fitted, tmp_path / "model.skops")
    model = asking.load("sklearn", tmp_path / "model.skops", trusted=False)
    np.testing.assert_allclose(asking.ask(model, {"input": ROWS})["predict"], TARGETS)


def test_an_unknown_type_is_named(tmp_path: Path) -> None:
    dump(make_pipeline(FunctionTransformer(), Odd()).fit(ROWS, TARGETS), tmp_path / "model.skops")
    with pytest.raises(LoadError, match=r"contains a '.*Odd', which is not on the list .* is not marked as trusted"):
        asking.load("sklearn", tmp_path / "model.skops", trusted=False)
    model = asking.load("sklearn", tmp_path / "model.skops", trusted=True)
    np.testing.assert_allclose(asking.ask(model, {"input": ROWS})["predict"], TARGETS)


def test_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "model.skops").write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(LoadError, match=r"'model.skops' could not be read: it is not a readable zip file"):
        asking.load("sklearn", tmp_path / "model.skops", trusted=False)
