"""What the graphs of a SavedModel could do to this machine, read before any of it is run.

TensorFlow's graphs are programs: most of their operators only compute, some read and write files. What every SavedModel
has for saving itself again is no harm as long as nothing but that leads there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mizzen.runtime.frameworks.model import LoadError

_PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
_SAVING = frozenset({"Save", "SaveSlices", "SaveV2", "MergeV2Checkpoints", "SaveDataset", "SaveDatasetV2"})
_FILES = frozenset(
    {
        "ReadFile", "WriteFile", "MatchingFiles", "WholeFileReader", "WholeFileReaderV2", "TFRecordReader",
        "TFRecordReaderV2", "TextLineReader", "TextLineReaderV2", "FixedLengthRecordReader",
        "FixedLengthRecordReaderV2", "TextLineDataset", "TFRecordDataset", "TFRecordDatasetV2",
        "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2", "MatchingFilesDataset", "SnapshotDataset",
        "SnapshotDatasetV2", "CacheDataset", "CacheDatasetV2", "LoadDataset", "DatasetToTFRecord",
        "CreateSummaryFileWriter", "CreateSummaryDbWriter", "PrintV2", "RpcCall", "DebugIdentity", "DebugIdentityV2",
    }
)  # fmt: skip


def risks(file: Path) -> str:
    """What else than computing its graphs do, in words; empty: nothing. LoadError when it is no SavedModel."""
    from tensorflow.core.protobuf import saved_model_pb2

    read = saved_model_pb2.SavedModel()
    try:
        read.ParseFromString(file.read_bytes())
    except Exception as error:  # the error's class is not the same in all versions of protobuf
        raise LoadError(f"'{file.name}' could not be read: {error}") from error
    found = {risk: None for graph in read.meta_graphs for risk in _of_graph(graph)}
    return ", ".join(found)


def _of_graph(graph: Any) -> Iterator[str]:
    functions = {one.signature.name: one.node_def for one in graph.graph_def.library.function}
    saver = graph.saver_def.save_tensor_name.partition(":")[0]
    saving = {name for name, nodes in functions.items() if any(node.op in _SAVING for node in nodes)}
    if not graph.object_graph_def.nodes:
        yield "a graph of TensorFlow 1, which nobody looked through"
    for nodes in (graph.graph_def.node, *functions.values()):
        for node in nodes:
            if node.op in _FILES | _PYTHON:
                yield node.op
            inner = nodes is graph.graph_def.node and node.name == saver
            if not inner and saving.intersection(_called(node)):
                yield "SaveV2"
    if any(node.op in _SAVING for node in graph.graph_def.node):
        yield "SaveV2"
    if saving.intersection(_callable(graph.object_graph_def)):
        yield "SaveV2"


def _called(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        for one in value.list.func:
            yield one.name


def _callable(objects: Any) -> Iterable[str]:
    """The functions that loading it hands out, or runs."""
    for node in objects.nodes:
        yield from node.function.concrete_functions
        yield node.bare_concrete_function.concrete_function_name
