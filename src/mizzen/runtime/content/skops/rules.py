"""Rules about the attributes of objects in a skops file, for classes that are harmless only with some values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

import numpy as np

from mizzen.runtime.content.findings import Unproven, quote
from mizzen.runtime.content.skops import text_rules
from mizzen.runtime.content.skops.values import NamedType, ObjectArray, SavedObject

_MOST_THREADS: Final = 64
_NAMED: Final = ("dtype", "_fit_dtype", "_fill_dtype", "score_func")
"""Attributes that hold types and functions, which are not called for predictions."""
_MOST_CLASSES: Final = 1 << 20
_INDEXES: Final = ("left_child", "right_child", "feature")
_NODE: Final = frozenset(
    {*_INDEXES, "threshold", "impurity", "n_node_samples", "weighted_n_node_samples", "missing_go_to_left"}
)
_DEEPEST: Final = 120
_METHODS: Final = ("predict", "predict_proba", "decision_function", "drop")
_NO_FUNCTIONS: Final = ("func", "inverse_func", "check_inverse", "kw_args", "inv_kw_args", "feature_names_out")


def check(value: Any, depth: int = 0) -> None:
    """Check a value of `values.Reader` with everything in it. Raises Unproven."""
    if depth > _DEEPEST:
        raise Unproven("it is nested too deeply")
    if isinstance(value, SavedObject):
        _check_part(value)
    for inner in _children(value):
        check(inner, depth + 1)


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, SavedObject):
        yield from value.attributes.values()
        yield from value.arguments
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        yield from value
    elif isinstance(value, ObjectArray):
        yield from value.items


def _check_part(part: SavedObject) -> None:
    state = part.attributes
    if state.get("memory") is not None:
        _refuse(part, "memory", state["memory"], "None, because a cache is made of pickles")
    jobs = [state[name] for name in ("n_jobs", "_n_threads") if state.get(name) is not None]
    if any(type(number) is not int or abs(number) > _MOST_THREADS for number in jobs):
        _refuse(part, "n_jobs", jobs[0], f"at most {_MOST_THREADS}")
    for name, value in state.items():
        if isinstance(value, NamedType) and name not in _NAMED:
            _refuse(part, name, value.kind, "a value")
    rule = _RULES.get(part.name)
    if rule is not None:
        rule(part)


def _refuse(part: SavedObject, name: str, value: Any, expected: str) -> NoReturn:
    raise Unproven(f"'{name}' of its {part.name} is {quote(value)}; expected {expected}")


def _no_functions(part: SavedObject) -> None:
    """FunctionTransformer and the like: identity only."""
    for name in _NO_FUNCTIONS:
        value = part.attributes.get(name)
        if value and value is not True and value != "one-to-one":
            _refuse(part, name, value, "None")


def _plain_names(part: SavedObject) -> None:
    """Names of outputs may be formatted by a template."""
    if not isinstance(part.attributes.get("verbose_feature_names_out", True), bool):
        _refuse(part, "verbose_feature_names_out", part.attributes["verbose_feature_names_out"], "True or False")


def _attribute_names(part: SavedObject) -> None:
    if part.attributes.get("importance_getter", "auto") != "auto":
        _refuse(part, "importance_getter", part.attributes["importance_getter"], "'auto'")


def _stacking(part: SavedObject) -> None:
    methods = part.attributes.get("stack_method_", [])
    if not isinstance(methods, list) or any(method not in _METHODS for method in methods):
        _refuse(part, "stack_method_", methods, "methods that predict")


def _one_hot(part: SavedObject) -> None:
    """Native code places ones by these numbers."""
    state = part.attributes
    categories, counts = state.get("categories_"), state.get("_n_features_outs")
    if state.get("_infrequent_enabled", False) is not False:
        _refuse(part, "_infrequent_enabled", state["_infrequent_enabled"], "False")
    if categories is None and counts is None:
        return
    dropped = state.get("_drop_idx_after_grouping")
    if not isinstance(categories, list) or not isinstance(counts, list) or len(counts) != len(categories):
        _refuse(part, "_n_features_outs", counts, "the numbers of categories")
    drops = [None] * len(categories) if dropped is None else _flat(dropped)
    if len(drops) != len(categories):
        _refuse(part, "_drop_idx_after_grouping", dropped, "one index for each column")
    for known, count, drop in zip(categories, counts, drops, strict=True):
        size = len(_flat(known))
        valid = drop is None or (isinstance(drop, int | np.integer) and 0 <= drop < size)
        if not valid or not isinstance(count, int | np.integer) or count != size - (drop is not None):
            _refuse(part, "_n_features_outs", counts, "the numbers of categories")


def _k_means(part: SavedObject) -> None:
    centers, width = part.attributes.get("cluster_centers_"), part.attributes.get("n_features_in_")
    if centers is not None and not (
        isinstance(centers, np.ndarray) and centers.ndim == 2 and type(width) is int and centers.shape[1] == width
    ):
        _refuse(part, "cluster_centers_", getattr(centers, "shape", centers), "as many columns as inputs")


def _decision_tree(part: SavedObject) -> None:
    tree, width = part.attributes.get("tree_"), part.attributes.get("n_features_in_")
    if tree is None:
        return
    if (
        not isinstance(tree, SavedObject)
        or tree.name != "Tree"
        or type(width) is not int
        or tree.arguments[:1] != (width,)
    ):
        _refuse(part, "n_features_in_", width, "that of its tree")


def _forest(part: SavedObject) -> None:
    """A forest checks the width of its input, and its trees do not."""
    members, width = part.attributes.get("estimators_", []), part.attributes.get("n_features_in_")
    if not isinstance(members, list):
        _refuse(part, "estimators_", members, "a list")
    for tree in members:
        if not isinstance(tree, SavedObject) or _RULES.get(tree.name) is not _decision_tree or type(width) is not int:
            _refuse(part, "estimators_", getattr(tree, "name", tree), "decision trees")
        if "tree_" not in tree.attributes or tree.attributes.get("n_features_in_") != width:
            _refuse(part, "n_features_in_", width, "that of its trees")


def _tree(part: SavedObject) -> None:
    """Native code follows the indexes in nodes without a check."""
    if len(part.arguments) != 3:
        _refuse(part, "arguments", len(part.arguments), "three")
    width, classes, outputs = part.arguments
    integers = type(width) is int and width > 0 and type(outputs) is int and 0 < outputs < _MOST_CLASSES
    if not integers or not isinstance(classes, np.ndarray) or classes.shape != (outputs,) or classes.dtype.kind != "i":
        _refuse(part, "arguments", part.arguments, "numbers of columns and classes")
    if (classes < 1).any() or (classes > _MOST_CLASSES).any():
        _refuse(part, "n_classes", classes, "at least one, and not too many")
    _check_nodes(part, width)


def _check_nodes(part: SavedObject, width: int) -> None:
    nodes, count = part.attributes.get("nodes"), part.attributes.get("node_count")
    if not isinstance(nodes, np.ndarray) or nodes.ndim != 1 or not len(nodes) or count != len(nodes):
        _refuse(part, "nodes", getattr(nodes, "shape", nodes), f"{count} nodes")
    fields = nodes.dtype.fields or {}
    kinds = {name: fields[name][0].kind for name in fields}
    if set(kinds) != _NODE or any(kinds[name] != "i" for name in _INDEXES):
        _refuse(part, "nodes", nodes.dtype, "the fields of a node")
    left, right, feature = (nodes[name] for name in _INDEXES)
    places = np.arange(len(nodes))
    inner = left != -1
    for children in (left, right):
        # Children come after their parent, so that every path ends.
        if ((children <= places) | (children >= len(nodes)))[inner].any():
            raise Unproven("a tree leads to a node that it does not have")
    if ((feature < 0) | (feature >= width))[inner].any():
        raise Unproven(f"a tree asks for a column that its {width} inputs do not have")


def _random_state(part: SavedObject) -> None:
    state = part.attributes.get("state")
    known = set(part.attributes) <= {"bit_generator", "state", "has_gauss", "gauss"}
    if not known or part.attributes.get("bit_generator") != "MT19937" or not isinstance(state, dict):
        _refuse(part, "bit_generator", part.attributes.get("bit_generator"), "MT19937")
    key, place = state.get("key"), state.get("pos")
    valid = (
        isinstance(key, np.ndarray) and key.shape == (624,) and key.dtype == np.uint32 and set(state) == {"key", "pos"}
    )
    if not valid or type(place) is not int or not 0 <= place <= 624:
        _refuse(part, "state", place, "that of MT19937")


def _flat(values: Any) -> list[Any]:
    if isinstance(values, ObjectArray):
        return list(values.items) if len(values.shape) == 1 else []
    return list(values.ravel()) if isinstance(values, np.ndarray) and values.ndim == 1 else []


_RULES: Final[Mapping[str, Callable[[SavedObject], None]]] = {
    "CountVectorizer": text_rules.check,
    "HashingVectorizer": text_rules.check,
    "TfidfVectorizer": text_rules.check,
    "FunctionTransformer": _no_functions,
    "TransformedTargetRegressor": _no_functions,
    "ColumnTransformer": _plain_names,
    "FeatureUnion": _plain_names,
    "SelectFromModel": _attribute_names,
    "StackingClassifier": _stacking,
    "StackingRegressor": _stacking,
    "OneHotEncoder": _one_hot,
    "KMeans": _k_means,
    "MiniBatchKMeans": _k_means,
    "DecisionTreeClassifier": _decision_tree,
    "DecisionTreeRegressor": _decision_tree,
    "ExtraTreeClassifier": _decision_tree,
    "ExtraTreeRegressor": _decision_tree,
    "RandomForestClassifier": _forest,
    "RandomForestRegressor": _forest,
    "ExtraTreesClassifier": _forest,
    "ExtraTreesRegressor": _forest,
    "Tree": _tree,
    "RandomState": _random_state,
}
