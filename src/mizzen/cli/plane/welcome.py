"""What a person sees when a plane is ready: where it answers, and lines to paste."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from mizzen.cli import demo, output
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.connection.locate import DEFAULT_DATA_DIR, Place
from mizzen.sdk.connection.tls_trust import GIVEN


async def show(place: Place, data_dir: Path, *, strangers: bool = True) -> None:
    """`strangers`: those without a token may call models."""
    async with AsyncPlane(place) as plane:
        current = {
            item["metadata"]["name"]: version
            for item in await plane.models()
            if (version := (item.get("status", {}).get("current") or {}).get("version"))
        }
        judged = demo.NAME in current and any(
            item["spec"].get("feedback") is not None
            for item in (await plane.list("inferencemodels"))["items"]
            if (item["spec"]["modelName"], item["spec"]["targetVersion"]) == (demo.NAME, current[demo.NAME])
        )
    output.tell()
    output.tell(f"control API    {place.control_url}")
    if place.tls_url:
        output.tell(f"  with TLS     {place.tls_url}")
    output.tell(f"inference API  {place.inference_url}")
    if place.grpc_address:
        output.tell(f"  over gRPC    {place.grpc_address}")
    output.tell(f"logs           {_short(data_dir / 'logs')}")
    output.tell()
    output.tell("Try it:")
    token_file = None if strangers else _short(data_dir / "admin-token")
    for line in lines(place, current, _launcher(), _flag(data_dir), token_file, judged=judged):
        output.tell(f"  {line}")


def lines(
    place: Place,
    current: Mapping[str, str],
    launcher: str,
    flag: str,
    token_file: Path | None = None,
    *,
    judged: bool = False,
) -> Iterator[str]:
    """Commands that work as they stand, one after the other; the demo's when it is served. With a token, if there is a
    file to take it from: itself it never stands in a line that ends up in a terminal's history. `judged`: the demo
    takes feedback."""
    if demo.NAME in current:
        token = f' -H "Authorization: Bearer $(cat {shlex.quote(str(token_file))})"' if token_file else ""
        # By a name that the caller gives it, so that the line with its feedback can stand here as well.
        body = demo.TENSOR.replace("{", f'{{"id":"{demo.ID}",', 1) if judged else demo.TENSOR
        yield f"curl -s{token}{_cacert(place)} {place.inference_url}/v2/models/{demo.NAME}/infer -d '{body}'"
        if judged:
            yield f"{launcher} feedback {demo.NAME} {demo.ID} --truth '{demo.TRUTH}'{flag}"
        yield f"{launcher} predict {demo.NAME} --data '{demo.ROW}'{flag}"
    else:
        yield f"{launcher} deploy model.joblib --name my-model{flag}"
    if not judged:
        yield f"{launcher} get models{flag}"
    log = f"{demo.NAME}-{current[demo.NAME]}" if demo.NAME in current else "plane"
    yield f"{launcher} logs {log}{flag}"


def _cacert(place: Place) -> str:
    """With what vouches for it, where it is the plane's own CA; the system knows other ones."""
    if place.data_dir is None or not str(place.inference_url).startswith("https:"):
        return ""
    folder = place.data_dir / "tls"
    return "" if (folder / GIVEN).exists() else f" --cacert {shlex.quote(str(_short(folder / 'ca.pem')))}"


def _launcher() -> str:
    return os.environ.get("MIZZEN_LAUNCHER") or "mizzen"


def _flag(data_dir: Path) -> str:
    """Commands typed in the same folder find the default data dir by themselves."""
    usual = Path(os.environ.get("MIZZEN_DATA_DIR") or DEFAULT_DATA_DIR)
    return "" if usual.resolve() == data_dir.resolve() else f" --data-dir {shlex.quote(str(_short(data_dir)))}"


def _short(path: Path) -> Path:
    """As seen from here, where that is shorter."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
