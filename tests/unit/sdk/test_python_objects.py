from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import joblib
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import FunctionTransformer

from mizzen.errors import Invalid
from mizzen.sdk.packaging import python_objects


def test_a_fitted_estimator_is_a_file_that_joblib_reads() -> None:
    model = LinearRegression().fit([[1.0], [2.0]], [2.0, 4.0])
    with python_objects.open_source(model) as found:
        assert (found.framework, found.entrypoint, found.path.suffix) == ("sklearn", None, ".joblib")
        assert joblib.load(found.path).predict([[3.0]]).tolist() == pytest.approx([6.0])
    assert not found.path.exists()


def test_an_estimator_with_a_lambda_within_travels_by_value() -> None:
    with python_objects.open_source(FunctionTransformer(lambda rows: rows).fit([[1.0]])) as found:
        assert joblib.load(found.path).transform([[3]]) == [[3]]


def test_an_unfitted_estimator_is_refused() -> None:
    with pytest.raises(Invalid, match="not fitted"), python_objects.open_source(LinearRegression()):
        pass


def test_local_code_and_objects_are_pickled_by_value() -> None:
    factor = 3
    for thing in (lambda inputs: inputs * factor, type("Local", (), {"predict": lambda self, x: x * factor})()):
        with python_objects.open_source(thing) as found:
            assert found.framework == "python"
            assert found.entrypoint == found.path.name
            back = pickle.loads(found.path.read_bytes())
            assert (back.predict(2) if hasattr(back, "predict") else back(2)) == 6


def test_code_of_a_module_file_is_sent_as_that_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mizzen_sdk_example.py").write_text(
        "def predict(inputs):\n    return inputs\n\n\nclass Model:\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import mizzen_sdk_example as example  # type: ignore[import-not-found]

    try:
        for thing, name in ((example.predict, "predict"), (example.Model, "Model")):
            with python_objects.open_source(thing) as found:
                assert found.path == (tmp_path / "mizzen_sdk_example.py").resolve()
                assert (found.framework, found.entrypoint) == ("python", f"mizzen_sdk_example:{name}")
        monkeypatch.setattr(example.predict, "__module__", "__main__")
        with python_objects.open_source(example.predict) as found:
            assert found.path.name == python_objects.PICKLED_FILE
    finally:
        del sys.modules["mizzen_sdk_example"]


def test_a_path_or_its_text_is_a_path(tmp_path: Path) -> None:
    file = tmp_path / "model.joblib"
    file.touch()
    for thing in (file, str(file)):
        with python_objects.open_source(thing) as found:
            assert found.path == file.resolve()


def test_anything_else_is_refused() -> None:
    for thing in (7, {"a": 1}, object()):
        with pytest.raises(Invalid, match="cannot be deployed"), python_objects.open_source(thing):
            pass
    with pytest.raises(Invalid, match="cannot be pickled"), python_objects.open_source(_Stubborn()):
        pass


class _Stubborn:
    def predict(self, inputs: Any) -> Any:
        return inputs

    def __reduce__(self) -> Any:
        raise RuntimeError("I stay")
