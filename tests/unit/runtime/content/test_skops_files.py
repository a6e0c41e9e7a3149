"""The inspection of skops files: what scikit-learn writes is proven harmless, and each change that could matter is
named. Whatever it accepts, skops can load with exactly the classes that it returned."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from mizzen.runtime.content.findings import DamagedFile, Unproven
from mizzen.runtime.content.skops import inspection
from tests.support.examples import examples
from tests.support.runtime.untrusted import (
    LABELS,
    ROWS,
    TEXTS,
    dump,
    edited,
    file_reader,
    linear,
    linear_file,
    members,
    packed,
    read_letters,
    state_of,
)

Schema = dict[str, Any]
FRAME = pd.DataFrame({"city": ["Rome", "Oslo", "Rome"], "age": [1.0, 2.0, 3.0], "size": ["a", "b", "c"]})


def columns() -> Any:
    parts = ColumnTransformer(
        [
            ("city", OneHotEncoder(handle_unknown="ignore"), ["city"]),
            ("age", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
            ("size", OrdinalEncoder(), slice(2, 3)),
        ],
        remainder="passthrough",
    )
    return make_pipeline(parts, RandomForestClassifier(3)).fit(FRAME, [1, 0, 1])


HARMLESS: list[Callable[[], Any]] = [
    linear,
    columns,
    lambda: DecisionTreeClassifier().fit(ROWS, LABELS),
    lambda: RandomForestClassifier(5).fit(ROWS, LABELS),
    lambda: ExtraTreesRegressor(5).fit(ROWS, LABELS),
    lambda: AdaBoostClassifier(n_estimators=3).fit(ROWS, LABELS),
    lambda: StackingClassifier([("a", linear()), ("b", RandomForestClassifier(3))]).fit(ROWS, LABELS),
    lambda: VotingClassifier([("a", linear()), ("b", GaussianNB())], voting="soft").fit(ROWS, LABELS),
    lambda: OneVsRestClassifier(LinearSVC()).fit(ROWS, LABELS),
    lambda: CalibratedClassifierCV(LinearSVC()).fit(ROWS, LABELS),
    lambda: SGDClassifier().fit(ROWS, LABELS),
    lambda: PoissonRegressor().fit(ROWS, LABELS),
    lambda: TransformedTargetRegressor(Ridge()).fit(ROWS, LABELS),
    lambda: MLPClassifier((4,), max_iter=500, random_state=0, solver="lbfgs").fit(ROWS, LABELS),
    lambda: KMeans(3).fit(ROWS),
    lambda: make_pipeline(make_union(StandardScaler(), MinMaxScaler()), PCA(2), linear()).fit(ROWS, LABELS),
    lambda: make_pipeline(SelectKBest(k=2), KBinsDiscretizer(2), Ridge()).fit(ROWS, LABELS),
    lambda: make_pipeline(FunctionTransformer(), GaussianNB()).fit(ROWS, LABELS),
    lambda: LogisticRegression().fit(ROWS, np.array(list("abc"), object)[LABELS]),
    lambda: make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, [1, 0, 1]),
    lambda: make_pipeline(TfidfVectorizer(stop_words="english", ngram_range=(1, 2)), Ridge()).fit(TEXTS, [1, 0, 1]),
    lambda: make_pipeline(HashingVectorizer(n_features=8), Ridge()).fit(TEXTS, [1, 0, 1]),
    lambda: CountVectorizer(vocabulary=["good", "bad"], analyzer="char_wb", ngram_range=(1, 3)),
]


@pytest.mark.parametrize("make", HARMLESS)
@pytest.mark.filterwarnings("ignore")
def test_what_computes_only_is_proven_harmless(make: Callable[[], Any]) -> None:
    import skops.io

    model = make()
    found = inspection.inspect(dump(model))
    again = skops.io.loads(dump(model), trusted=sorted(found))
    assert type(again) is type(model)


@pytest.mark.parametrize(
    ("model", "finding"),
    [
        (KNeighborsClassifier(), "KNeighborsClassifier"),
        (SVC(), "SVC"),
        (GradientBoostingClassifier(n_estimators=2), "GradientBoostingClassifier"),
        (make_pipeline(FunctionTransformer(np.log1p), GaussianNB()), "the function 'numpy.*log1p'"),
        (make_pipeline(FunctionTransformer(len, validate=False)), "the type 'builtins.len'"),
        (RandomForestClassifier(2, n_jobs=5000), "'n_jobs' .* is '5000'"),
    ],
)
def test_other_classes_and_functions_need_trust(model: Any, finding: str) -> None:
    if not isinstance(model, RandomForestClassifier) and "len" not in finding:
        model.fit(ROWS, LABELS)
    with pytest.raises(Unproven, match=finding):
        inspection.inspect(dump(model))


@pytest.mark.parametrize(
    ("parameters", "finding"),
    [
        ({"input": "filename"}, "'input' .* is 'filename'; expected 'content'"),
        ({"input": "file"}, "'input' .* is 'file'"),
        ({"analyzer": "other"}, "'analyzer'"),
        ({"analyzer": str.split}, "MethodNode|method|it contains"),
        ({"tokenizer": len}, "builtins.len"),
        ({"preprocessor": str}, "'preprocessor' .* is 'builtins.str'"),
        ({"encoding": "zip"}, "'encoding'"),
        ({"token_pattern": r"(?<=a)b"}, "'token_pattern'"),
        ({"token_pattern": r"(a+)+$"}, "'token_pattern'"),
        ({"token_pattern": r"\w+\w+\w+"}, "'token_pattern'"),
        ({"token_pattern": r"[-']+\b"}, "'token_pattern'"),
        ({"ngram_range": (1, 10**9)}, "'ngram_range'"),
        ({"stop_words": 7}, "'stop_words'"),
        ({"vocabulary": {"a": 0, "b": 10**9}}, "'vocabulary' .* does not number"),
        ({"vocabulary": {"a": 0, "b": -1}}, "'vocabulary' .* does not number"),
    ],
)
def test_vectorizers_only_of_plain_texts(parameters: dict[str, Any], finding: str) -> None:
    vectorizer = CountVectorizer()
    vectorizer.__dict__.update(parameters)
    for model in (vectorizer, make_pipeline(vectorizer, LogisticRegression())):
        with pytest.raises((Unproven, DamagedFile), match=finding):
            inspection.inspect(dump(model))


@pytest.mark.parametrize(
    "pattern", [r"(?u)\b\w\w+\b", r"(?u)\b\w+\b", r"\S+", r"[a-zA-Z]{2,}", r"\b[a-z]+\b", r"[A-Za-z0-9']+", ".", None]
)
def test_usual_patterns(pattern: str | None) -> None:
    vectorizer = CountVectorizer(vocabulary=["a"], token_pattern=pattern, analyzer="word" if pattern else "char")
    if pattern == ".":
        with pytest.raises(Unproven):
            inspection.inspect(dump(vectorizer))
    else:
        inspection.inspect(dump(vectorizer))


def change(name: str, value: Any) -> Callable[[Schema], None]:
    def edit(schema: Schema) -> None:
        state_of(schema)[name] = {**state_of(schema)[name], "content": json.dumps(value), "__id__": 1}

    return edit


def add(name: str, node: dict[str, Any]) -> Callable[[Schema], None]:
    """Another attribute."""

    def edit(schema: Schema) -> None:
        content = schema["content"]
        content["content"][name] = node
        kinds = content["key_types"]["content"]
        kinds.append(kinds[0])

    return edit


def node(loader: str, module: str, name: str, **more: Any) -> dict[str, Any]:
    return {"__loader__": loader, "__module__": module, "__class__": name, **more}


NOTHING = node("TupleNode", "builtins", "tuple", content=[])
EMPTY = node("DictNode", "builtins", "dict", content={}, key_types=node("ListNode", "builtins", "list", content=[]))


@pytest.mark.parametrize(
    ("edit", "finding"),
    [
        (add("__class__", NOTHING), "the attribute '__class__'"),
        (add("a b", NOTHING), "the attribute 'a b'"),
        (add("x", node("FunctionNode", "os", "system")), "the function 'os.system'"),
        (add("x", node("TypeNode", "os", "system")), "the type 'os.system'"),
        (add("x", node("TypeNode", "builtins", "str")), "'x' of its LogisticRegression is 'builtins.str'"),
        (add("x", node("ObjectNode", "os", "_wrap_close", content=None)), "'os._wrap_close', which is not on the list"),
        (add("x", node("MethodNode", "builtins", "str", content={})), "'MethodNode'"),
        (add("x", node("PartialNode", "functools", "partial", content={})), "'PartialNode'"),
        (add("x", node("OperatorFuncNode", "operator", "methodcaller", attrs=NOTHING)), "'OperatorFuncNode'"),
        (add("x", node("ConstructorFromReduceNode", "os", "system", content=NOTHING)), "ConstructorFromReduceNode"),
        (add("x", node("RandomGeneratorNode", "numpy.random", "Generator", content={})), "RandomGeneratorNode"),
        (add("x", node("DefaultDictNode", "collections", "defaultdict", content={})), "DefaultDictNode"),
        (add("x", node("CachedNode", "builtins", "str")), "CachedNode"),
        (add("x", node("SparseMatrixNode", "scipy.sparse", "csr_matrix", type="scipy")), "SparseMatrixNode"),
        (add("x", node("MaskedArrayNode", "numpy.ma", "MaskedArray", content={})), "MaskedArrayNode"),
        (add("x", node("BytesNode", "builtins", "bytes", file="schema.json")), "BytesNode"),
        (add("x", node("ListNode", "os", "system", content=[])), "'os.system'"),
        (add("x", node("DictNode", "os", "environ", content={}, key_types=NOTHING)), "'os.environ'"),
        (add("x", node("SetNode", "builtins", "exec", content=[])), "'builtins.exec'"),
        (add("x", node("NdArrayNode", "os", "system", type="numpy", file="a.npy")), "'os.system'"),
        (add("x", node("NdArrayNode", "numpy", "memmap", type="numpy", file="a.npy")), "'numpy.memmap'"),
        (add("x", node("NdArrayNode", "numpy", "ndarray", type="numpy", file="schema.json")), "names the file"),
        (add("x", node("NdArrayNode", "numpy", "ndarray", type="pickle", file="a.npy")), "the type 'pickle'"),
        (add("x", node("TreeNode", "os", "system", content=EMPTY, __reduce__={"args": NOTHING})), "'os.system'"),
        (add("x", node("LossNode", "os", "system", content=EMPTY, __reduce__={"args": NOTHING})), "'os.system'"),
        (add("x", node("RandomStateNode", "os", "system", content=EMPTY)), "'os.system'"),
        (add("x", node("RandomStateNode", "numpy.random.mtrand", "RandomState", content=EMPTY)), "MT19937"),
        (add("x", {"__loader__": "JsonNode"}), "without a class"),
        (add("x", {}), "without a class"),
        (add("x", node("JsonNode", "builtins", "str", content='{"a": 1}', is_json=True)), "not a number or text"),
        (add("x", node("JsonNode", "builtins", "str", content="1", __id__="a")), "has the id 'a'"),
        (lambda schema: schema.update(protocol=1), "protocol '1'"),
        (lambda schema: schema.update(protocol=True), "protocol"),
        (lambda schema: schema["content"]["key_types"]["content"].pop(), "too few types of keys"),
        (change("n_jobs", 10**6), "'n_jobs'"),
    ],
)
def test_a_schema_with_something_else(edit: Callable[[Schema], None], finding: str) -> None:
    with pytest.raises((Unproven, DamagedFile), match=finding):
        inspection.inspect(edited(linear_file(), edit))


def test_an_id_names_one_object(tmp_path: Any) -> None:
    """skops takes the first object of an id, so the second one could say anything."""
    data = dump(make_pipeline(CountVectorizer(vocabulary=["a"])))

    def confuse(schema: Schema) -> None:
        pair = state_of(schema)["steps"]["content"][0]["content"]
        pair[0] |= {"content": '"filename"', "__id__": 77}
        pair[1]["content"]["content"]["input"]["__id__"] = 77

    inspection.inspect(data)
    with pytest.raises(Unproven, match="two objects with the id 77"):
        inspection.inspect(edited(data, confuse))

    def nest(schema: Schema) -> None:
        state_of(schema)["steps"]["__id__"] = schema["__id__"]

    with pytest.raises(Unproven, match="contains itself"):
        inspection.inspect(edited(data, nest))


@pytest.mark.parametrize(
    ("field", "value"), [("feature", 4), ("feature", -1), ("left_child", 0), ("right_child", 10**6), ("left_child", -3)]
)
def test_a_tree_that_leads_elsewhere(field: str, value: int) -> None:
    files = members(dump(DecisionTreeClassifier(max_depth=2).fit(ROWS, LABELS)))
    schema = json.loads(files["schema.json"])
    name = state_of(schema)["tree_"]["content"]["content"]["nodes"]["file"]
    nodes = np.load(io.BytesIO(files[name]))
    nodes[field][0] = value
    buffer = io.BytesIO()
    np.save(buffer, nodes)
    with pytest.raises(Unproven, match=r"a tree (leads to a node|asks for a column)"):
        inspection.inspect(packed(files | {name: buffer.getvalue()}))


@pytest.mark.parametrize("name", ["n_features_in_", "node_count"])
def test_a_tree_of_another_size(name: str) -> None:
    def grow(schema: Schema) -> None:
        state = state_of(schema)
        place = state if name in state else state["tree_"]["content"]["content"]
        place[name] = {**place[name], "content": "1000", "__id__": 1}

    with pytest.raises(Unproven, match="expected"):
        inspection.inspect(edited(dump(DecisionTreeClassifier(max_depth=2).fit(ROWS, LABELS)), grow))


def test_a_forest_of_another_width_than_its_trees() -> None:
    model = RandomForestClassifier(2, max_depth=2).fit(ROWS, LABELS)
    model.n_features_in_ = 1
    with pytest.raises(Unproven, match="'n_features_in_' of its RandomForestClassifier"):
        inspection.inspect(dump(model))


def test_an_encoder_that_places_ones_elsewhere() -> None:
    model = OneHotEncoder().fit(FRAME[["city"]])
    model._n_features_outs = [1]
    with pytest.raises(Unproven, match="'_n_features_outs'"):
        inspection.inspect(dump(model))


def test_centers_of_another_width() -> None:
    model = KMeans(2).fit(ROWS)
    model.cluster_centers_ = np.zeros((2, 2))
    with pytest.raises(Unproven, match="'cluster_centers_'"):
        inspection.inspect(dump(model))


def test_a_cache_is_made_of_pickles() -> None:
    model = make_pipeline(StandardScaler()).fit(ROWS)
    model.memory = "cache"
    with pytest.raises(Unproven, match="'memory' of its Pipeline is 'cache'"):
        inspection.inspect(dump(model))


def test_arrays_of_objects_are_not_unpickled() -> None:
    files = members(linear_file())
    name = next(name for name in files if name.endswith(".npy"))
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], object), allow_pickle=True)
    with pytest.raises(Unproven, match="not a plain number"):
        inspection.inspect(packed(files | {name: buffer.getvalue()}))
    header = files[name][:128].replace(b"(3,)", b"(9999999999,)").replace(b"             ", b"   ", 1)
    with pytest.raises(DamagedFile):
        inspection.inspect(packed(files | {name: header + files[name][128:]}))


def test_unusual_zip_files() -> None:
    files = members(linear_file())
    for name in ("../evil.npy", "/etc/passwd.npy", "a/b.npy", "a\\b.npy"):
        with pytest.raises(Unproven, match="is a path"):
            inspection.inspect(packed(files | {name: b""}))
    with pytest.raises(Unproven, match="which skops does not write"):
        inspection.inspect(packed(files | {"code.py": b""}))
    with pytest.raises(DamagedFile, match="not a zip file"):
        inspection.inspect(b"#!/bin/sh\n" + packed(files))
    with pytest.raises(DamagedFile, match=r"'schema\.json' is missing"):
        inspection.inspect(packed({"a.npy": b""}))
    out = io.BytesIO(packed(files))
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("schema.json", b"{}")
    with pytest.raises(Unproven, match="the same name"):
        inspection.inspect(out.getvalue())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", bytes(50 << 20))
    with pytest.raises(Unproven, match="expands to"):
        inspection.inspect(out.getvalue())


def test_keys_count_once() -> None:
    files = members(linear_file())
    twice = files["schema.json"].replace(b'"__class__"', b'"__class__": "A", "__class__"', 1)
    with pytest.raises(Unproven, match="the key '__class__' occurs twice"):
        inspection.inspect(packed(files | {"schema.json": twice}))
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    with pytest.raises(Unproven, match="nested too deeply"):
        inspection.inspect(packed(files | {"schema.json": deep}))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=examples(500), deadline=None)
@given(st.data())
def test_a_damaged_schema_is_never_a_surprise(data: st.DataObject) -> None:
    """Any part of the schema replaced by any value: an answer of the inspection, and no other exception."""
    files = members(FITTED)
    schema = json.loads(files["schema.json"])
    place = schema
    for _ in range(data.draw(st.integers(0, 6))):
        inner = [key for key, value in place.items() if isinstance(value, dict)]
        if not inner:
            break
        place = place[data.draw(st.sampled_from(inner))]
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(VALUES)
    with contextlib.suppress(Unproven, DamagedFile):
        inspection.inspect(packed(files | {"schema.json": json.dumps(schema).encode()}))


@settings(max_examples=examples(500), deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_byte_is_never_a_surprise(at: int, byte: int) -> None:
    damaged = bytearray(FITTED)
    damaged[at % len(damaged)] = byte
    with contextlib.suppress(Unproven, DamagedFile):
        inspection.inspect(bytes(damaged))


def test_the_reader_of_files_reads_where_it_is_loaded(tmp_path: Any) -> None:
    """So that the attack tests prove something."""
    import skops.io

    (tmp_path / "secret").write_text("abcXYZ_-9")
    data = file_reader(9)
    with pytest.raises(Unproven, match="'input' of its CountVectorizer is 'filename'"):
        inspection.inspect(data)
    reader = skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))
    counts = reader.transform(np.array([[str(tmp_path / "secret")]], object))
    assert read_letters(np.asarray(counts).ravel()) == "abcXYZ_-9"


FITTED = dump(DecisionTreeClassifier(max_depth=2).fit(ROWS, LABELS))
