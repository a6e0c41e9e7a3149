"""Model files that their authors would not want to be looked into, and harmless ones: real ones, as frameworks write
them."""

from __future__ import annotations

import functools
import io
import json
import pickle
import string
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import onnx
import xgboost
from onnx import TensorProto, helper
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

LETTERS = string.ascii_letters + string.digits + "_-"
ROWS, LABELS = load_iris(return_X_y=True)
TEXTS = ["good day", "bad day", "fine day"]


def dump(model: Any) -> bytes:
    import skops.io  # it takes a second, for everyone who collects tests

    data: bytes = skops.io.dumps(model)
    return data


def file_reader(length: int) -> bytes:
    """A skops file of plain scikit-learn classes. Asked with the name of a file, it answers the first letters in it.

    One vectorizer per letter opens the file, and counts what follows so many others.
    """
    readers = [
        CountVectorizer(lowercase=False, vocabulary=list(LETTERS), token_pattern=rf"(?s)(?<=\A.{{{at}}}).")
        for at in range(length)
    ]
    union = ColumnTransformer([(f"letter{at}", reader, 0) for at, reader in enumerate(readers)], sparse_threshold=0)
    union.fit(np.array([["abc"]], object))
    for _, reader, _ in [*union.transformers, *union.transformers_]:
        reader.input = "filename"
    return dump(union)


def read_letters(counts: Iterable[float]) -> str:
    """What the answer of a `file_reader` says."""
    rows = np.reshape(list(counts), (-1, len(LETTERS)))
    return "".join(LETTERS[int(row.argmax())] if row.any() else "?" for row in rows)


def edited(data: bytes, edit: Callable[[dict[str, Any]], None]) -> bytes:
    """A skops file with another schema."""
    schema = json.loads(members(data)["schema.json"])
    edit(schema)
    return packed(members(data) | {"schema.json": json.dumps(schema).encode()})


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


@functools.cache
def linear_file() -> bytes:
    return dump(linear())


@functools.cache
def function_file() -> bytes:
    """Its pipeline begins with a function."""
    return dump(make_pipeline(FunctionTransformer(np.log1p), linear()).fit(ROWS, LABELS))


def linear() -> Any:
    return LogisticRegression(max_iter=200).fit(ROWS, LABELS)


def state_of(schema: dict[str, Any]) -> dict[str, Any]:
    """The attributes of the outer object."""
    state: dict[str, Any] = schema["content"]["content"]
    return state


def graph(nodes: list[Any] | None = None, *, weights: Any = None, domains: tuple[str, ...] = ("",)) -> Any:
    """A small ONNX model: x [n, 4] times w [4, 2]."""
    weights = weights or helper.make_tensor("w", TensorProto.FLOAT, [4, 2], np.arange(8.0))
    nodes = nodes or [helper.make_node("MatMul", ["x", "w"], ["y"])]
    made = helper.make_graph(
        nodes, "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [weights],
    )  # fmt: skip
    imports = [helper.make_opsetid(domain, 17 if not domain else 1) for domain in domains]
    return helper.make_model(made, opset_imports=imports, ir_version=8)


def outside_tensor(location: str) -> Any:
    """Weights that are read from another file."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 2])
    weights.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("length", "32")):
        weights.external_data.append(onnx.StringStringEntryProto(key=key, value=value))
    return weights


def boosted() -> dict[str, Any]:
    """XGBoost's JSON."""
    model: dict[str, Any] = json.loads(boosted_file("json"))
    return model


@functools.cache
def boosted_file(form: str) -> bytes:
    fitted = xgboost.XGBClassifier(n_estimators=2, max_depth=2).fit(ROWS, LABELS)
    return bytes(fitted.get_booster().save_raw(form))


def trees_of(model: dict[str, Any]) -> list[dict[str, Any]]:
    trees: list[dict[str, Any]] = model["learner"]["gradient_booster"]["model"]["trees"]
    return trees


@functools.cache
def light() -> str:
    """LightGBM's text."""
    fitted = lightgbm.LGBMClassifier(n_estimators=2, num_leaves=4, verbosity=-1).fit(ROWS, LABELS)
    text: str = fitted.booster_.model_to_string()
    return text


def harmless(folder: Path) -> dict[str, Path]:
    """Files by the name of their framework and what they are, which need no trust."""
    text = make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, [1, 0, 1])
    contents = {
        "sklearn linear.skops": dump(make_pipeline(StandardScaler(), linear()).fit(ROWS, LABELS)),
        "sklearn forest.skops": dump(RandomForestClassifier(5, random_state=0).fit(ROWS, LABELS)),
        "sklearn text.skops": dump(text),
        "onnx graph.onnx": graph().SerializeToString(),
        "xgboost trees.json": json.dumps(boosted()).encode(),
        "xgboost trees.ubj": boosted_file("ubj"),
        "lightgbm trees.txt": light().encode(),
    }
    return _written(folder, contents)


class _Runs:
    def __reduce__(self) -> Any:
        return print, ("this ran",)


def hostile(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files by the name of their framework and what they are, each with what the refusal has to name."""
    cached = make_pipeline(StandardScaler(), linear()).fit(ROWS, LABELS)
    cached.memory = "/tmp"
    stray = dump(DecisionTreeClassifier(max_depth=2).fit(ROWS, LABELS))
    tree = members(stray)
    name = json.loads(tree["schema.json"])["content"]["content"]["tree_"]["content"]["content"]["nodes"]["file"]
    nodes = np.load(io.BytesIO(tree[name]))
    nodes["feature"][0] = 1 << 30
    buffer = io.BytesIO()
    np.save(buffer, nodes)
    booster = boosted()
    trees_of(booster)[0]["split_indices"][0] = 1 << 30
    custom = graph([helper.make_node("Run", ["x", "w"], ["y"], domain="com.example")], domains=("", "com.example"))
    files = {
        "sklearn reader.skops": (file_reader(3), "'input' of its CountVectorizer is 'filename'"),
        "sklearn function.skops": (function_file(), "log1p"),
        "sklearn cached.skops": (dump(cached), "'memory' of its Pipeline"),
        "sklearn stray.skops": (packed(tree | {name: buffer.getvalue()}), "a tree asks for a column"),
        "sklearn pickle.skops": (pickle.dumps(_Runs()), "could not be read: it is not a zip file"),
        "onnx outside.onnx": (
            graph(weights=outside_tensor("../../admin-token")).SerializeToString(), "is stored in another file",
        ),
        "onnx custom.onnx": (custom.SerializeToString(), "'com.example'"),
        "onnx zip.onnx": (linear_file(), "its Model has the field 10"),
        "xgboost stray.json": (json.dumps(booster).encode(), "a tree asks for an input"),
        "xgboost binary.model": (b"binf" + bytes(100), "old binary format"),
        "lightgbm path.txt": (light().replace("[data: ]", "[data: /etc/passwd]").encode(), "its parameter 'data'"),
        "lightgbm stray.txt": (light().replace("split_feature=2", "split_feature=9", 1).encode(), "asks for an input"),
    }  # fmt: skip
    written = _written(folder, {name: content for name, (content, _) in files.items()})
    return {name: (written[name], said) for name, (_, said) in files.items()}


def _written(folder: Path, contents: dict[str, bytes]) -> dict[str, Path]:
    paths = {}
    for key, content in contents.items():
        framework, name = key.split()
        paths[key] = folder / framework / name
        paths[key].parent.mkdir(parents=True, exist_ok=True)
        paths[key].write_bytes(content)
    return paths
