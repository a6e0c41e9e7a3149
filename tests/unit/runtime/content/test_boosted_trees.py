"""The inspection of XGBoost and LightGBM models: real files pass, and what native code would follow blindly fails."""

from __future__ import annotations

import contextlib
import json
import re
import struct
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.runtime.content import lightgbm_models, ubjson, xgboost_models
from mizzen.runtime.content.findings import DamagedFile, Unproven
from tests.support.examples import examples
from tests.support.runtime.untrusted import LABELS, ROWS, boosted, boosted_file, light, trees_of

Model = dict[str, Any]
NAMED = pd.DataFrame(ROWS, columns=["a b", "c", "d", "é"])
CITIES = pd.DataFrame({"city": pd.Categorical(["x", "y", "z"] * 50), "size": ROWS[:, 0]})


@pytest.mark.parametrize("form", ["json", "ubj"])
@pytest.mark.parametrize(
    "parameters",
    [
        {}, {"booster": "dart"}, {"booster": "gblinear"}, {"num_parallel_tree": 3, "subsample": 0.5},
        {"tree_method": "exact", "gamma": 3}, {"objective": "binary:logistic"},
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_xgboost_writes_what_is_harmless(parameters: dict[str, Any], form: str) -> None:
    labels = (LABELS > 0).astype(int) if "objective" in parameters else LABELS
    fitted = xgboost.XGBClassifier(n_estimators=2, max_depth=3, n_jobs=1, **parameters).fit(NAMED, labels)
    xgboost_models.inspect(bytes(fitted.get_booster().save_raw(form)))


@pytest.mark.parametrize(
    "parameters", [{}, {"verbose": -1, "objective": "huber"}, {"monotone_constraints": "1,0,0,-1"}]
)
def test_lightgbm_writes_what_is_harmless(parameters: dict[str, Any]) -> None:
    for labels in (LABELS, LABELS > 0):
        if not parameters:
            fitted = lightgbm.LGBMClassifier(n_estimators=3, verbosity=-1, n_jobs=1).fit(NAMED, labels)
        else:
            fitted = lightgbm.LGBMRegressor(n_estimators=3, verbosity=-1, n_jobs=1, **parameters).fit(NAMED, labels)
        lightgbm_models.inspect(fitted.booster_.model_to_string().encode())


def test_lightgbm_with_categories_and_without_splits() -> None:
    fitted = lightgbm.LGBMRegressor(n_estimators=3, verbosity=-1, min_data_per_group=1, cat_smooth=0, n_jobs=1)
    text = fitted.fit(CITIES, np.array([1, 5, 2] * 50)).booster_.model_to_string()
    assert "cat_threshold" in text
    lightgbm_models.inspect(text.encode())
    with pytest.raises(Unproven, match="a split by categories"):
        lightgbm_models.inspect(resized(re.sub(r"threshold=0 \d", "threshold=0 7", text, count=1)).encode())
    flat = lightgbm.LGBMRegressor(n_estimators=1, verbosity=-1, n_jobs=1).fit(np.zeros((50, 2)), np.zeros(50))
    lightgbm_models.inspect(flat.booster_.model_to_string().encode())


def resized(text: str) -> str:
    """LightGBM's text with sizes that fit its trees again."""
    head, _, rest = text.partition("\n\n")
    body = rest.partition("\nend of trees\n")[0] + "\n"
    sizes = " ".join(str(len(each.encode())) for each in re.split(r"(?=Tree=\d)", body) if each)
    return re.sub(r"tree_sizes=.*", f"tree_sizes={sizes}", head) + "\n\n" + rest


def in_tree(name: str, value: Any) -> Callable[[Model], None]:
    def edit(model: Model) -> None:
        trees_of(model)[0][name][0] = value

    return edit


def put(*path: str, value: Any) -> Callable[[Model], None]:
    def edit(model: Model) -> None:
        place = model
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return edit


BOOSTER = ("learner", "gradient_booster", "model")


@pytest.mark.parametrize(
    ("edit", "finding"),
    [
        (in_tree("left_children", 1000), "leads to a node"),
        (in_tree("left_children", -2), "leads to a node"),
        (in_tree("left_children", 0), "leads to a node"),
        (in_tree("right_children", 1), "or twice to one"),
        (in_tree("split_indices", 4), "asks for an input"),
        (in_tree("split_indices", -1), "asks for an input"),
        (in_tree("split_type", 1), "categories"),
        (in_tree("split_indices", "a"), "not an array of numbers"),
        (lambda model: trees_of(model)[0]["parents"].pop(), "another number of nodes"),
        (lambda model: trees_of(model)[0]["categories"].append(1), "categories"),
        (lambda model: trees_of(model)[0]["tree_param"].update(num_nodes="1000"), "another number of nodes"),
        (lambda model: trees_of(model)[0]["tree_param"].update(num_feature="1000"), "does not fit"),
        (lambda model: trees_of(model)[0]["tree_param"].update(size_leaf_vector="3"), "several values per leaf"),
        (lambda model: trees_of(model)[0].update(extra=[]), "the field 'extra'"),
        (lambda model: trees_of(model).pop(), "its number of trees"),
        (put(*BOOSTER, "tree_info", value=[0, 1, 2, 0, 1, 3]), "belongs to none"),
        (put(*BOOSTER, "iteration_indptr", value=[0, 3, 7]), "iteration_indptr"),
        (put(*BOOSTER, "cats", value={"enc": [1]}), "categories"),
        (put(*BOOSTER, "cats", value={"enc": 1}), "categories"),
        (put("learner", "gradient_booster", "name", value="other"), "the booster 'other'"),
        (put("learner", "learner_model_param", "num_feature", value="9" * 30), "a number of things"),
        (put("learner", "learner_model_param", "num_class", value="/etc/passwd"), "expected a number"),
        (put("learner", "objective", "name", value="python:run"), "its objective"),
        (put("learner", "objective", "softmax_multiclass_param", value={"num_class": "1000"}), "number of classes"),
        (put("learner", "attributes", value={"scikit_learn": 1}), "attributes are not texts"),
        (put("learner", "feature_names", value=[1]), "not texts"),
        (put("learner", "feature_types", value=["c"]), "categories"),
        (put("Config", value={}), "the field 'Config'"),
        (put("learner", value=[]), "is not an object"),
    ],
)
def test_an_xgboost_model_that_leads_elsewhere(edit: Callable[[Model], None], finding: str) -> None:
    model = boosted()
    edit(model)
    with pytest.raises((Unproven, DamagedFile), match=finding):
        xgboost_models.inspect(json.dumps(model).encode())


@pytest.mark.parametrize(
    ("data", "error", "finding"),
    [
        (b"binf" + bytes(200), Unproven, "old binary format"),
        (b"PK\x03\x04", DamagedFile, "neither JSON nor UBJSON"),
        (b"", DamagedFile, "neither JSON nor UBJSON"),
        (b'{"learner": {}, "learner": {}}', Unproven, "occurs twice"),
        (b'{"learner": ' + b"[" * 200_000, Unproven, "nested too deeply"),
        (b'{"a": 1} more', DamagedFile, "not valid JSON"),
        (b"{i\x01a{" + b"i\x01a{" * 200, Unproven, "nested too deeply"),
        (b"{i\x01ai\x01i\x01ai\x01}", Unproven, "occurs twice"),
        (b"{i\x01ai\x01}more", DamagedFile, "continues after the end"),
        (b"{i\x01a[$d#L" + b"\x7f" * 8, DamagedFile, "cut off"),
        (b"{i\x01a[#L" + b"\x7f" * 8, DamagedFile, "cut off"),
        (b"{i\x01a[$S#i\x01", Unproven, "unusual type"),
        (b"{i\x01aH", DamagedFile, "unknown type"),
        (b"{i\xffa", DamagedFile, "cut off"),
        (b"{i\x01ai", DamagedFile, "cut off"),
    ],
)
def test_what_is_not_such_a_file(data: bytes, error: type[Exception], finding: str) -> None:
    with pytest.raises(error, match=finding):
        xgboost_models.inspect(data)


def test_ubjson_is_what_json_says() -> None:
    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        return [plain(inner) for inner in value] if isinstance(value, list) else value

    found, said = plain(ubjson.parse(boosted_file("ubj"))), boosted()
    assert found.keys() == said.keys()
    one, other = trees_of(found)[0], trees_of(said)[0]
    assert {name: one[name] for name in ("left_children", "split_indices", "parents")} == {
        name: other[name] for name in ("left_children", "split_indices", "parents")
    }
    assert struct.pack("f", one["split_conditions"][0]) == struct.pack("f", other["split_conditions"][0])


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("left_child=1", "left_child=7", "leads to a node"),
        ("left_child=1", "left_child=-9", "leads to a node"),
        ("left_child=1", "left_child=0", "leads to a node"),
        ("left_child=1", "left_child=x", "where numbers are expected"),
        ("split_feature=2", "split_feature=4", "asks for an input"),
        ("split_feature=2", "split_feature=-1", "asks for an input"),
        ("split_feature=2", "split_feature=2 1 1 1", "does not have .* numbers"),
        ("num_leaves=3", "num_leaves=300", "does not have 299 numbers"),
        ("decision_type=2", "decision_type=1", "categories that it does not have"),
        ("is_linear=0", "is_linear=1", "linear trees"),
        ("shrinkage=1", "shrinkage=1\ncode=1", "the line 'code=1'"),
        ("shrinkage=1", "shrinkage=1\nshrinkage=1", "comes twice"),
        ("num_class=3", "num_class=30", "numbers of classes and outputs differ"),
        ("num_tree_per_iteration=3", "num_tree_per_iteration=0", "numbers of classes and outputs differ"),
        ("multiclass num_class:3", "multiclass num_class:3000", "its objective is"),
        ("multiclass num_class:3", "multiclass", "number of classes"),
        ("multiclass num_class:3", "custom:/tmp/a.so", "its objective is"),
        ("max_feature_idx=3", "max_feature_idx=30", "does not have 31 feature_names"),
        ("tree_sizes=", "tree_sizes=1", "does not have the size"),
        ("tree_sizes=", "other=", "unknown"),
        ("[data: ]", "[data: ../../admin-token]", "its parameter 'data'"),
        ("[machines: ]", "[machines: 10.0.0.1:99]", "its parameter 'machines'"),
        ("[forcedsplits_filename: ]", "[forcedsplits_filename: secret]", "'forcedsplits_filename'"),
        ("[machine_list_filename: ]", "[machine_list_filename: a]", "'machine_list_filename'"),
        ("[parser_config_file: ]", "[parser_config_file: a]", "'parser_config_file'"),
        ("[boosting: gbdt]", "[boosting: ../a]", "its parameter 'boosting'"),
        ("end of parameters", "parser:\nend of parameters", "the line 'parser:'"),
        ("pandas_categorical:null", 'pandas_categorical:{"a":1,"a":2}', "occurs twice"),
        ("version=v4", "version=v4\r", "end a line only for some"),
    ],
)
def test_a_lightgbm_model_that_leads_elsewhere(old: str, new: str, finding: str) -> None:
    text = light()
    assert old in text
    changed = text.replace(old, new, 1)
    if "tree_sizes" not in old:
        changed = resized(changed)
    with pytest.raises((Unproven, DamagedFile), match=finding):
        lightgbm_models.inspect(changed.encode())


def test_trees_are_where_the_sizes_say() -> None:
    """LightGBM jumps there, so a tree could hide in another line."""
    sizes = re.findall(r"tree_sizes=(.*)", light())[0].split()
    for wrong in (sizes[:-1], [*sizes, "10"], [str(int(sizes[0]) + 5), *sizes[1:]], ["-1", *sizes[1:]], ["9" * 15]):
        changed = re.sub(r"tree_sizes=.*", "tree_sizes=" + " ".join(wrong), light())
        with pytest.raises(Unproven, match=r"the size|more trees|outputs"):
            lightgbm_models.inspect(changed.encode())


@settings(max_examples=examples(500), deadline=None)
@given(st.sampled_from(["json", "ubj", "txt"]), st.integers(0, 1 << 20), st.binary(max_size=4), st.integers(0, 3))
def test_damage_is_never_a_surprise(form: str, at: int, put: bytes, removed: int) -> None:
    whole = light().encode() if form == "txt" else boosted_file(form)
    inspect = lightgbm_models.inspect if form == "txt" else xgboost_models.inspect
    place = at % len(whole)
    with contextlib.suppress(Unproven, DamagedFile):
        inspect(whole[:place] + put + whole[place + removed :])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=examples(500), deadline=None)
@given(st.data())
def test_other_values_are_never_a_surprise(data: st.DataObject) -> None:
    place: Any = boosted()
    whole = place
    for _ in range(data.draw(st.integers(0, 8))):
        keys = list(place) if isinstance(place, dict) else range(len(place))
        inner = [key for key in keys if isinstance(place[key], dict | list) and place[key]]
        if not inner:
            break
        place = place[data.draw(st.sampled_from(inner))]
    keys = list(place) if isinstance(place, dict) else range(len(place))
    place[data.draw(st.sampled_from(list(keys)))] = data.draw(VALUES)
    with contextlib.suppress(Unproven, DamagedFile):
        xgboost_models.inspect(json.dumps(whole).encode())
