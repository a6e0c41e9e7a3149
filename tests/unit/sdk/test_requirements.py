"""Requirements as callers of the SDK and the CLI give them."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from mizzen import errors
from mizzen.cli.object_arguments import PackageOptions
from mizzen.sdk.packaging import requirements
from tests.support.golden import Golden


def test_lines_or_a_file_of_them(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("a==1 # one\n")
    assert requirements.to_list(["b", "c"]) == ["b", "c"]
    assert requirements.to_list(file) == requirements.to_list(str(file)) == ["a==1"]
    assert requirements.to_list([]) == []
    assert requirements.to_list(None) is None


def test_a_file_that_is_not_there_or_cannot_be_followed(tmp_path: Path, golden: Golden) -> None:
    with pytest.raises(errors.NotFound) as absent:
        requirements.to_list("numpy>=2")
    golden.check(absent.value.hint)
    (tmp_path / "r.txt").write_text("-e .")
    with pytest.raises(errors.Invalid, match=r"line 1: '-e \.' is a pip option"):
        requirements.to_list(tmp_path / "r.txt")


def test_what_was_pickled_with_cloudpickle_needs_it_again() -> None:
    pickled = Path("model.cloudpickle")
    assert requirements.with_pickler(["a"], "python", pickled) == ["a", "cloudpickle"]
    assert requirements.with_pickler(["Cloudpickle<4"], "python", pickled) == ["Cloudpickle<4"]
    assert requirements.with_pickler(["a"], "sklearn", Path("model.joblib")) == ["a"]
    assert requirements.with_pickler(None, "python", pickled) is None


def test_what_it_requires_is_told(golden: Golden) -> None:
    golden.check(requirements.describe({"requirements": ["a", "b", "c", "d"]}))
    golden.check(requirements.describe({"requirements": ["a"]}))
    assert requirements.describe({}) == ""


def test_one_way_to_say_it() -> None:
    assert PackageOptions().keywords() == {"requirements": None, "python": None}
    assert PackageOptions(requirement=["a"]).keywords()["requirements"] == ["a"]
    assert PackageOptions(requirements=Path("r"), python="3.12").keywords()["requirements"] == Path("r")
    assert PackageOptions(no_requirements=True).keywords()["requirements"] == []
    with pytest.raises(typer.BadParameter, match="one of --requirements"):
        PackageOptions(requirements=Path("r"), requirement=["a"]).keywords()
