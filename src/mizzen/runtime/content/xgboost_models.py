"""XGBoost models in JSON and UBJSON: known fields only, and trees that lead nowhere outside of themselves.

XGBoost follows the indexes in a tree without a check. Older binary files, categories, and trees with several values per
leaf are not inspected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from mizzen.runtime.content import strict_json, ubjson
from mizzen.runtime.content.findings import DamagedFile, Unproven, quote

_JSON_START: Final = re.compile(rb'\{\s*"')
_UBJSON_START: Final = re.compile(rb"\{[iUIlL]")
_NUMBERS: Final = re.compile(r"\[?[-+0-9.eE,]{0,100000}\]?|\w{1,40}", re.ASCII)
_OBJECTIVES: Final = re.compile(r"(?:reg|binary|multi|count|rank|survival):\w{1,40}", re.ASCII)
_LARGEST: Final = 1 << 30

_LEARNER: Final = frozenset(
    ["attributes", "feature_names", "feature_types", "gradient_booster", "learner_model_param", "objective"]
)
_TREE_ARRAYS: Final = (
    "base_weights", "default_left", "left_children", "loss_changes", "parents", "right_children", "split_conditions",
    "split_indices", "split_type", "sum_hessian",
)  # fmt: skip
_CATEGORIES: Final = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
_TREE: Final = frozenset({*_TREE_ARRAYS, *_CATEGORIES, "id", "tree_param"})


def inspect(data: bytes) -> None:
    """Raises Unproven or DamagedFile."""
    if _JSON_START.match(data):
        model = strict_json.parse(data, "it")
    elif _UBJSON_START.match(data):
        model = ubjson.parse(data)
    elif data.startswith(b"binf"):
        raise Unproven("it is in XGBoost's old binary format")
    else:
        raise DamagedFile("it is neither JSON nor UBJSON")
    _keys(model, ("learner", "version"), "model")
    learner = _keys(_get(model, "learner"), _LEARNER, "learner")
    shape = _params(_get(learner, "learner_model_param"), "learner_model_param")
    features, classes, targets = (_integer(shape.get(key, "0")) for key in ("num_feature", "num_class", "num_target"))
    groups = max(classes, targets, 1)
    _check_names(learner)
    _check_objective(_get(learner, "objective"), classes)
    _check_booster(_get(learner, "gradient_booster"), features, groups)


def _check_names(learner: Mapping[str, Any]) -> None:
    for key in ("feature_names", "feature_types"):
        names = learner.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Unproven(f"its {key} are not texts")
    if "c" in learner.get("feature_types", []):
        raise Unproven("it has categories, which are not inspected")
    attributes = learner.get("attributes", {})
    if not isinstance(attributes, dict) or not all(isinstance(value, str) for value in attributes.values()):
        raise Unproven("its attributes are not texts")
    if "scikit_learn" in attributes:
        strict_json.parse(attributes["scikit_learn"].encode(), "its attribute 'scikit_learn'")


def _check_objective(objective: Any, classes: int) -> None:
    name = _get(objective, "name")
    if not isinstance(name, str) or not _OBJECTIVES.fullmatch(name):
        raise Unproven(f"its objective is {quote(name)}")
    for key, value in objective.items():
        params = {} if key == "name" else _params(value, key)
        if name.startswith("multi:") and _integer(params.get("num_class", str(classes))) != classes:
            raise Unproven("its objective has another number of classes")


def _check_booster(booster: Any, features: int, groups: int) -> None:
    name = _get(booster, "name")
    if name == "gbtree":
        _keys(booster, ("name", "model"), "gradient_booster")
        _check_trees(_get(booster, "model"), features, groups)
    elif name == "dart":
        _keys(booster, ("name", "gbtree", "weight_drop"), "gradient_booster")
        inner = _keys(_get(booster, "gbtree"), ("name", "model"), "gbtree")
        trees = _check_trees(_get(inner, "model"), features, groups)
        if len(_array(booster, "weight_drop", "fiu")) != trees:
            raise Unproven("'weight_drop' does not have a number for each tree")
    elif name == "gblinear":
        _keys(booster, ("name", "model"), "gradient_booster")
        model = _keys(_get(booster, "model"), ("weights", "boosted_rounds"), "model")
        if len(_array(model, "weights", "fiu")) != (features + 1) * groups:
            raise Unproven("it does not have a weight for each input")
    else:
        raise Unproven(f"it has the booster {quote(name)}")


def _check_trees(model: Any, features: int, groups: int) -> int:
    _keys(model, ("cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees"), "model")
    cats = _keys(model.get("cats", {}), ("enc", "feature_segments", "sorted_idx"), "cats")
    if not all(isinstance(value, list | np.ndarray) and not len(value) for value in cats.values()):
        raise Unproven("it has categories, which are not inspected")
    params = _params(_get(model, "gbtree_model_param"), "gbtree_model_param")
    trees, owners = _get(model, "trees"), _array(model, "tree_info", "iu")
    if (
        not isinstance(trees, list)
        or len(owners) != len(trees)
        or _integer(params.get("num_trees", "-1")) != len(trees)
    ):
        raise Unproven("its number of trees is not what it states")
    if not (_integer(params.get("num_parallel_tree", "1")) or 1) <= max(len(trees), 1):
        raise Unproven("its number of parallel trees is not what it states")
    if ((owners < 0) | (owners >= groups)).any():
        raise Unproven(f"a tree belongs to none of its {groups} outputs")
    if "iteration_indptr" in model:
        places = _array(model, "iteration_indptr", "iu")
        if not len(places) or places[0] != 0 or places[-1] != len(trees) or (places[1:] < places[:-1]).any():
            raise Unproven("its 'iteration_indptr' does not fit its trees")
    for tree in trees:
        _check_tree(tree, features)
    return len(trees)


def _check_tree(tree: Any, features: int) -> None:
    _keys(tree, _TREE, "tree")
    params = _params(_get(tree, "tree_param"), "tree_param")
    count = _integer(params.get("num_nodes", "0"))
    if _integer(params.get("size_leaf_vector", "0")) > 1:
        raise Unproven("it has several values per leaf, which are not inspected")
    if not count or _integer(params.get("num_feature", "0")) > features:
        raise Unproven("a tree does not fit the number of its inputs or nodes")
    if not 0 <= _integer(params.get("num_deleted", "0")) < count:
        raise Unproven("a tree has no nodes")
    if any(len(_array(tree, name, "fiu")) for name in _CATEGORIES if name in tree):
        raise Unproven("it has categories, which are not inspected")
    columns = {name: _array(tree, name, "fiu") for name in _TREE_ARRAYS if name in tree}
    if any(len(column) != count for column in columns.values()):
        raise Unproven("a tree has another number of nodes than it states")
    left, right, feature = (_array(tree, name, "iu") for name in ("left_children", "right_children", "split_indices"))
    inner = left != -1
    if "split_type" in columns and columns["split_type"].any():
        raise Unproven("it has categories, which are not inspected")
    children = np.concatenate((left[inner], right[inner]))
    # With one parent each, and none for the root, no path can return to where it was.
    if ((children < 1) | (children >= count)).any() or len(np.unique(children)) != len(children):
        raise Unproven("a tree leads to a node that it does not have, or twice to one")
    if ((feature < 0) | (feature >= features))[inner].any():
        raise Unproven(f"a tree asks for an input that is not one of its {features}")


def _keys(value: Any, known: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unproven(f"its '{name}' is not an object")
    for key in value:
        if key not in known:
            raise Unproven(f"its '{name}' has the field {quote(key)}, which is not known to be harmless")
    return value


def _get(value: Any, key: str) -> Any:
    if not isinstance(value, dict) or key not in value:
        raise DamagedFile(f"it is not an XGBoost model: '{key}' is missing")
    return value[key]


def _params(value: Any, name: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Unproven(f"its '{name}' is not an object")
    for key, text in value.items():
        if not isinstance(text, str) or not _NUMBERS.fullmatch(text):
            raise Unproven(f"'{quote(key)}' in '{name}' is {quote(text)}; expected a number")
    return value


def _integer(text: str) -> int:
    if not re.fullmatch(r"\d{1,10}", text, re.ASCII) or int(text) > _LARGEST:
        raise Unproven(f"it has {quote(text)} where a number of things is expected")
    return int(text)


def _array(value: Mapping[str, Any], key: str, kinds: str) -> Any:
    """Return the numbers as an array of one dimension. `kinds`: those of its dtype."""
    found = _get(value, key)
    try:
        array = (
            found if isinstance(found, np.ndarray) else np.array(found if found else [], None if found else np.int64)
        )
    except (ValueError, OverflowError) as error:
        raise Unproven(f"its '{key}' is not an array of numbers") from error
    if array.ndim != 1 or array.dtype.kind not in kinds or not isinstance(found, list | np.ndarray):
        raise Unproven(f"its '{key}' is not an array of numbers")
    return array
