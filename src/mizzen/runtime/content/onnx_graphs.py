"""ONNX graphs: standard operators only, and no data outside of the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mizzen import protobuf_wire
from mizzen.protobuf_wire import Malformed
from mizzen.runtime.content.findings import DamagedFile, Unproven, quote
from mizzen.runtime.content.onnx_operators import MESSAGES, OPERATORS

_DEEPEST: Final = 40
_MOST_FIELDS: Final = 5_000_000
_ORT_FORMAT: Final = b"ORTM"
_SESSION_OPTIONS: Final = "ort_config"
"""Metadata from which onnxruntime can take session options."""


def inspect(data: bytes) -> None:
    """Raises Unproven or DamagedFile."""
    if data[4:8] == _ORT_FORMAT:
        raise Unproven("it is in onnxruntime's own format, not in that of ONNX")
    try:
        _Inspection().message("Model", memoryview(data), 0)
    except Malformed as error:
        raise DamagedFile(f"it is not an ONNX file: {error}") from error


@dataclass(slots=True)
class _Inspection:
    fields: int = 0

    def message(self, name: str, content: memoryview, depth: int) -> None:
        if depth > _DEEPEST:
            raise Unproven("its graphs are nested too deeply")
        known = MESSAGES[name]
        texts: dict[str, str] = {}
        for number, _, value in protobuf_wire.iter_fields(content, read=protobuf_wire.read_exact_varint):
            self.fields += 1
            if self.fields > _MOST_FIELDS:
                raise Unproven(f"it has more than {_MOST_FIELDS} fields")
            if number not in known:
                raise Unproven(f"its {name} has the field {number}, which is not known to be harmless")
            meaning = known[number]
            if meaning in MESSAGES:
                self.message(meaning, protobuf_wire.message_of(value), depth + 1)
            elif meaning == "external_data" or (meaning == "data_location" and value != 0):
                raise Unproven("a tensor is stored in another file (external data)")
            elif meaning in ("type", "domain", "key"):
                # The last one of several would count, or be merged.
                if meaning in texts:
                    raise Unproven(f"its {name} has two fields '{meaning}'")
                texts[meaning] = protobuf_wire.text_of(value)
        _check_texts(name, texts)


def _check_texts(name: str, texts: dict[str, str]) -> None:
    domain = texts.get("domain", "")
    if name in ("Node", "Opset") and domain not in OPERATORS:
        raise Unproven(f"it uses operators of the domain {quote(domain)}, which are not part of ONNX")
    if name == "Node" and texts.get("type", "") not in OPERATORS[domain]:
        raise Unproven(
            f"it uses the operator {quote(texts.get('type', ''))}, which is not on the list of harmless ones"
        )
    if name == "Metadata" and texts.get("key") == _SESSION_OPTIONS:
        raise Unproven("its metadata contains options for onnxruntime")
