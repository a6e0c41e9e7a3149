"""The welcome text of a plane that is ready: its addresses, and commands to paste."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from mizzen.cli import demo, output
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.connection.locate import DEFAULT_DATA_DIR, PlaneAddress
from mizzen.sdk.connection.tls_trust import GIVEN


async def show(place: PlaneAddress, data_dir: Path, *, strangers: bool = True) -> None:
    """Print the welcome text. `strangers`: callers without a token may call models."""
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
    output.write_progress()
    output.write_progress(f"control API    {place.control_url}")
    if place.tls_url:
        output.write_progress(f"  with TLS     {place.tls_url}")
    output.write_progress(f"inference API  {place.inference_url}")
    if place.grpc_address:
        output.write_progress(f"  over gRPC    {place.grpc_address}")
    output.write_progress(f"logs           {_shorten(data_dir / 'logs')}")
    output.write_progress()
    output.write_progress("Try it:")
    token_file = None if strangers else _shorten(data_dir / "admin-token")
    for line in build_commands(place, current, _launcher(), _data_dir_option(data_dir), token_file, judged=judged):
        output.write_progress(f"  {line}")


def build_commands(
    place: PlaneAddress,
    current: Mapping[str, str],
    launcher: str,
    flag: str,
    token_file: Path | None = None,
    *,
    judged: bool = False,
) -> Iterator[str]:
    """Commands that work when pasted one after the other; those of the demo if it is served.

    The token, if needed, is read from `token_file`: it must never appear in a line of the terminal's history.
    `judged`: the demo takes feedback.
    """
    if demo.NAME in current:
        token = f' -H "Authorization: Bearer $(cat {shlex.quote(str(token_file))})"' if token_file else ""
        # The caller chooses the request id, so that the feedback line below can name it.
        body = demo.TENSOR.replace("{", f'{{"id":"{demo.ID}",', 1) if judged else demo.TENSOR
        yield f"curl -s{token}{_cacert_option(place)} {place.inference_url}/v2/models/{demo.NAME}/infer -d '{body}'"
        if judged:
            yield f"{launcher} feedback {demo.NAME} {demo.ID} --truth '{demo.TRUTH}'{flag}"
        yield f"{launcher} predict {demo.NAME} --data '{demo.ROW}'{flag}"
    else:
        yield f"{launcher} deploy model.joblib --name my-model{flag}"
    if not judged:
        yield f"{launcher} get models{flag}"
    log = f"{demo.NAME}-{current[demo.NAME]}" if demo.NAME in current else "plane"
    yield f"{launcher} logs {log}{flag}"


def _cacert_option(place: PlaneAddress) -> str:
    """The `--cacert` option, if the plane uses its own CA; the system trusts other CAs."""
    if place.data_dir is None or not str(place.inference_url).startswith("https:"):
        return ""
    folder = place.data_dir / "tls"
    return "" if (folder / GIVEN).exists() else f" --cacert {shlex.quote(str(_shorten(folder / 'ca.pem')))}"


def _launcher() -> str:
    return os.environ.get("MIZZEN_LAUNCHER") or "mizzen"


def _data_dir_option(data_dir: Path) -> str:
    """The `--data-dir` option, unless commands in this folder find the data dir by default."""
    usual = Path(os.environ.get("MIZZEN_DATA_DIR") or DEFAULT_DATA_DIR)
    return "" if usual.resolve() == data_dir.resolve() else f" --data-dir {shlex.quote(str(_shorten(data_dir)))}"


def _shorten(path: Path) -> Path:
    """The path relative to the current folder, if it is inside it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
