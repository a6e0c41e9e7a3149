"""The messages of gRPC, compiled from the .proto files: what gateways read them with, and hand out to who asks."""

from __future__ import annotations

import tempfile
from importlib import resources
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

FOLDER = "src/mizzen/gateway/grpc/wire"
_ROOT = Path(__file__).resolve().parent.parent.parent
_OLDER = ("reflection.proto", "reflection_v1alpha.proto", "grpc.reflection.v1;", "grpc.reflection.v1alpha;")


def files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        for proto in sorted((_ROOT / FOLDER).glob("*.proto")):
            (Path(folder) / proto.name).write_text(proto.read_text())
        source, copy, package, older = _OLDER
        text = (Path(folder) / source).read_text()
        assert package in text
        (Path(folder) / copy).write_text(text.replace(package, older))
        return {f"{FOLDER}/descriptors.binpb": _compiled(Path(folder))}


def _compiled(folder: Path) -> bytes:
    out = folder / "descriptors"
    names = sorted(proto.name for proto in folder.glob("*.proto"))
    included = resources.files("grpc_tools") / "_proto"
    if protoc.main(["protoc", f"-I{folder}", f"-I{included}", f"--descriptor_set_out={out}", *names]):
        raise SystemExit("the .proto files cannot be compiled")
    found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return found.SerializeToString(deterministic=True)
