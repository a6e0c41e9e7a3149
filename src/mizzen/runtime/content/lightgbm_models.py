"""LightGBM models in text: known lines only, no paths or addresses, and trees that lead nowhere outside of themselves.

LightGBM jumps to trees by the sizes that the file states, and follows the indexes in a tree without a check.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mizzen.runtime.content import strict_json
from mizzen.runtime.content.findings import DamagedFile, Unproven, quote

_END: Final = "\nend of trees\n"
_HEADER: Final = (
    "tree", "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective",
    "average_output", "feature_names", "monotone_constraints", "feature_infos", "tree_sizes",
)  # fmt: skip
_OF_SPLITS: Final = (
    "split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child", "internal_value",
    "internal_weight", "internal_count",
)  # fmt: skip
_OF_LEAVES: Final = ("leaf_value", "leaf_weight", "leaf_count")
_OF_TREES: Final = ("num_leaves", "num_cat", "cat_boundaries", "cat_threshold", "is_linear", "shrinkage")
_TREE: Final = (*_OF_TREES, *_OF_SPLITS, *_OF_LEAVES)
_NEEDED: Final = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
_OBJECTIVE: Final = re.compile(r"[a-z0-9_]{1,40}(?: [a-z_]{1,40}(?::[-+.\w]{1,40})?)*", re.ASCII)
_PARAMETER: Final = re.compile(r"\[(\w{1,60}): (.*)\]", re.ASCII)
_HARMLESS: Final = re.compile(r"[-+0-9.,eE\[\] ]*|inf|-inf|nan", re.ASCII)
_WORD: Final = re.compile(r"[a-z0-9_,]{1,200}", re.ASCII)
_WORDS: Final = (
    "boosting", "objective", "metric", "tree_learner", "device_type", "data_sample_strategy",
    "monotone_constraints_method",
)  # fmt: skip
"""Parameters whose values are words."""
_LARGEST: Final = 1 << 24


def inspect(data: bytes) -> None:
    """Raises Unproven or DamagedFile."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(f"it is not text: {error}") from error
    if not text.startswith("tree\n"):
        raise DamagedFile("it does not begin with the line 'tree'")
    if "\r" in text or "\0" in text:
        raise Unproven("it has characters that end a line only for some readers")
    head, blank, rest = text.partition("\n\n")
    body, end, tail = rest.partition(_END)
    if not blank or not end:
        raise DamagedFile("it has no line 'end of trees'")
    header = _read_lines(head, _HEADER)
    features, outputs = _check_header(header)
    sections = _split_trees(body + "\n", header.get("tree_sizes"))
    if len(sections) % outputs:
        raise Unproven(f"it has {len(sections)} trees for {outputs} outputs")
    for section in sections:
        _check_tree(_read_lines(section.rstrip("\n"), _TREE), features)
    _check_tail(tail)


def _read_lines(text: str, known: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.split("\n"):
        key, _, value = line.partition("=")
        if key not in known or key in found:
            raise Unproven(f"it has the line {quote(line)}, which is unknown or comes twice")
        found[key] = value
    return found


def _check_header(header: dict[str, str]) -> tuple[int, int]:
    """Return the number of features, and of outputs."""
    classes, outputs = (_integer(header, key) for key in ("num_class", "num_tree_per_iteration"))
    features = _integer(header, "max_feature_idx") + 1
    if classes != outputs or not classes or header.get("label_index", "0") != "0":
        raise Unproven("its numbers of classes and outputs differ")
    if header.get("average_output"):
        raise Unproven("its 'average_output' has a value")
    for key in ("feature_names", "feature_infos"):
        if len(header.get(key, "").split(" ")) != features:
            raise Unproven(f"it does not have {features} {key}")
    objective = header.get("objective")
    if objective is None:
        return features, outputs
    stated = re.findall(r"num_class:([^ ]*)", objective)
    if not _OBJECTIVE.fullmatch(objective) or any(number != str(classes) for number in stated):
        raise Unproven(f"its objective is {quote(objective)}")
    if objective.startswith("multiclass") and len(stated) != 1:
        raise Unproven("its objective has another number of classes")
    return features, outputs


def _split_trees(body: str, sizes: str | None) -> list[str]:
    """Return the lines of each tree, without the first one."""
    if sizes is None:
        raise Unproven("it does not state the sizes of its trees")
    encoded = body.encode()
    sections = []
    at = 0
    for number, size in enumerate(_numbers(sizes, np.int64)):
        section = encoded[at : at + int(size)]
        start = b"Tree=%d\n" % number
        if size <= 0 or len(section) != size or not section.startswith(start) or section.count(b"Tree=") != 1:
            raise Unproven(f"its tree {number} does not have the size that the file states")
        sections.append(section.removeprefix(start).decode())
        at += int(size)
    if encoded[at:].strip(b"\n"):
        raise Unproven("it has more trees than it states")
    return sections


def _check_tree(tree: dict[str, str], features: int) -> None:
    leaves, categorical = _integer(tree, "num_leaves"), _integer(tree, "num_cat")
    if tree.get("is_linear", "0") != "0":
        raise Unproven("it has linear trees, which are not inspected")
    for names, count in ((_OF_SPLITS, leaves - 1), (_OF_LEAVES, leaves)):
        for name in names:
            # A tree with one leaf leaves out what it has no splits for.
            if tree.get(name) and len(_numbers(tree[name], np.float64)) != count:
                raise Unproven(f"'{name}' of a tree does not have {count} numbers")
    if not leaves or not tree.get("leaf_value"):
        raise Unproven("a tree has no leaves")
    if leaves == 1:
        return
    if any(not tree.get(name) for name in _NEEDED):
        raise Unproven("a tree does not have all of its fields")
    feature, left, right = (_numbers(tree[name], np.int64) for name in ("split_feature", "left_child", "right_child"))
    places = np.arange(leaves - 1)
    for children in (left, right):
        # Splits come after their parent, so that every path ends. Leaves count from -1 downwards.
        if ((children >= leaves - 1) | (children < -leaves) | ((children >= 0) & (children <= places))).any():
            raise Unproven("a tree leads to a node that it does not have")
    if ((feature < 0) | (feature >= features)).any():
        raise Unproven(f"a tree asks for an input that is not one of its {features}")
    _check_categories(tree, categorical)


def _check_categories(tree: dict[str, str], count: int) -> None:
    chosen = (_numbers(tree["decision_type"], np.int64) & 1) == 1
    sets = _numbers(tree["threshold"], np.float64)[chosen]
    if not count:
        if chosen.any():
            raise Unproven("a tree has a split by categories that it does not have")
        return
    bounds, bits = _numbers(tree.get("cat_boundaries", ""), np.int64), _numbers(tree.get("cat_threshold", ""), np.int64)
    if len(bounds) != count + 1 or bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] != len(bits):
        raise Unproven("a tree has unusual categories")
    if not ((sets >= 0) & (sets < count)).all():
        raise Unproven("a tree has a split by categories that it does not have")


def _check_tail(tail: str) -> None:
    for line in tail.split("\n"):
        if line.startswith("pandas_categorical:"):
            strict_json.parse(line.removeprefix("pandas_categorical:").encode(), "its 'pandas_categorical'")
        elif line.startswith("["):
            _check_parameter(line)
        elif line not in ("", "feature_importances:", "parameters:", "end of parameters") and not re.fullmatch(
            r"[^\n]{1,1000}=-?[0-9.e+-]{1,40}", line
        ):
            raise Unproven(f"it has the line {quote(line)}, which is unknown")


def _check_parameter(line: str) -> None:
    """Parameters name data, configuration files and other machines: those have to be empty."""
    found = _PARAMETER.fullmatch(line)
    if found is None:
        raise Unproven(f"it has the line {quote(line)}, which is unknown")
    name, value = found.groups()
    if not _HARMLESS.fullmatch(value) and not (name in _WORDS and _WORD.fullmatch(value)):
        raise Unproven(f"its parameter '{name}' is {quote(value)}; expected numbers or nothing, so remove the line")


def _integer(fields: dict[str, str], key: str) -> int:
    text = fields.get(key, "")
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) > _LARGEST:
        raise Unproven(f"its '{key}' is {quote(text)}; expected a number")
    return int(text)


def _numbers(text: str, dtype: Any) -> Any:
    try:
        return np.array(text.split(" ") if text else [], dtype)
    except (ValueError, OverflowError) as error:
        raise Unproven(f"it has {quote(text)} where numbers are expected") from error
