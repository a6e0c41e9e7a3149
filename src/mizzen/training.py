"""The API for training code: parameters, progress reports and checkpoints.

    from mizzen import training

    params = training.params(rate=0.1, epochs=20)
    for epoch in range(params["epochs"]):
        ...
        training.report(epoch + 1, total=params["epochs"], loss=loss)
        training.save_checkpoint(lambda path: joblib.dump(model, path), "model.joblib", step=epoch + 1, loss=loss)

Its use is optional: the interface is environment variables and files, which the documentation of training lists. It
also works outside of a job: parameters are the defaults, reports are printed, checkpoints go to the folder
`checkpoints`.

It uses only the standard library of Python 3.9 and newer: it is imported where nothing else of Mizzen is.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Source = str | os.PathLike[str] | Callable[[Path], Any]

__all__ = [
    "checkpoint_dir", "dataset_dir", "latest_checkpoint", "log_dir", "params", "rank", "report", "save_checkpoint",
    "world_size",
]  # fmt: skip

_METRICS_FILE = "metrics.jsonl"
_SAVING = ".saving-"
_UNFINISHED = (".tmp", ".part")
_ENDS_IN_NUMBER = re.compile(r"(\d+)(?:\.\w+)?$")
_MOST_LINE = 1 << 20

_lock = threading.Lock()
_last: dict[str, Any] = {}
"""The last report of this process."""


def params(**defaults: Any) -> dict[str, Any]:
    """Return the job's hyperparameters merged over `defaults`; outside of a job, the defaults."""
    text = os.environ.get("MIZZEN_PARAMS")
    return {**defaults, **(json.loads(text) if text else {})}


def report(step: int, total: int | None = None, message: str = "", **metrics: Any) -> None:
    """Report progress and metrics. Metrics are numbers, or one-element arrays such as numpy's.

    `mizzen train show` shows the last report; a monitor plots all of them. NaN is reported as missing.
    """
    measured = _numbers(metrics)
    now = time.time()
    with _lock:
        _last.clear()
        _last.update(step=int(step), metrics=measured)
    line = {"step": int(step), "total": None if total is None else int(total), "metrics": measured, "message": message}
    progress = os.environ.get("MIZZEN_PROGRESS")
    if progress:
        _replace(Path(progress), {**line, "time": now})
    else:
        _print(line)
    if os.environ.get("MIZZEN_LOG_DIR") and measured:
        _append(log_dir() / _METRICS_FILE, {"step": int(step), "time": now, "metrics": measured})


def save_checkpoint(source: Source, name: str | None = None, step: int | None = None, **metrics: Any) -> Path:
    """Save a checkpoint atomically, and return its path.

    `source`: a file or folder, which is copied; or a function that gets a path and writes a file or a folder there.
    `name`: its name; by default the file's own. With a step, the name gets the step's number, so that the next
    checkpoint does not replace it. Without metrics, it gets those reported for the same step.
    """
    folder = checkpoint_dir()
    name = _name(source, name, step)
    _clear_unfinished(folder)
    saving = Path(tempfile.mkdtemp(prefix=f"{_SAVING}{rank()}-{os.getpid()}-", dir=folder))
    try:
        written = _prepare(source, saving, name)
        target = folder / (name if written == saving else written.name)
        _sync(written)
        os.utime(written)  # so that the checkpoint saved last is the newest, also if its files are older
        _describe(folder / f".{target.name}.meta.json", step, _numbers(metrics))
        _move(written, target, saving)
    finally:
        shutil.rmtree(saving, ignore_errors=True)
    _sync_folder(folder)
    return target


def latest_checkpoint() -> Path | None:
    """Return the last saved checkpoint of this job, to resume from, also of an earlier attempt or another replica."""
    folder = Path(os.environ.get("MIZZEN_CHECKPOINT_DIR") or "checkpoints")
    found = [entry for entry in folder.glob("*") if _is_checkpoint(entry.name)] if folder.is_dir() else []
    return max(found, key=_age, default=None)


def checkpoint_dir() -> Path:
    """Return the folder for checkpoints. An entry renamed into it counts at once; others when the code ends
    successfully."""
    return _make_folder(os.environ.get("MIZZEN_CHECKPOINT_DIR") or "checkpoints")


def log_dir() -> Path:
    """Return the folder for TensorBoard event files and metrics."""
    return _make_folder(os.environ.get("MIZZEN_LOG_DIR") or "logs")


def dataset_dir(default: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder of the job's dataset; `default` if it has none, or outside of a job."""
    named = os.environ.get("MIZZEN_DATASET_DIR") or default
    return None if named is None else Path(named)


def rank() -> int:
    """Return this process's rank among those that train together; 0 leads."""
    return int(os.environ.get("RANK") or 0)


def world_size() -> int:
    """Return the number of processes that train together."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, value in metrics.items():
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"metric {name!r} must be a number, not {type(value).__name__}: {error}") from error
        found[name] = number if math.isfinite(number) else None
    return found


def _name(source: Source, name: str | None, step: int | None) -> str:
    if name is None:
        name = "checkpoint" if callable(source) else Path(source).name
    if not _is_checkpoint(name) or name != os.path.basename(name):
        raise ValueError(
            f"{name!r} is not a valid checkpoint name: it must not contain '/', begin with '.' or end in .tmp or .part"
        )
    if step is None or _number_of(name) == int(step):
        return name
    stem, dot, suffix = name.partition(".")
    return f"{stem}-{int(step)}{dot}{suffix}"


def _prepare(source: Source, saving: Path, name: str) -> Path:
    """Return the path to rename; `saving` itself if there are several files and none has the name."""
    wanted = saving / name
    if not callable(source):
        if Path(source).is_dir():
            shutil.copytree(source, wanted)
        else:
            shutil.copy2(source, wanted)
        return wanted
    source(wanted)
    written = sorted(saving.iterdir())
    if not written:
        raise ValueError(f"nothing was written to {wanted}: write a file or a folder at that path")
    # Some savers add a suffix to the path, some write several files whose names begin with it.
    return written[0] if len(written) == 1 else saving


def _move(written: Path, target: Path, saving: Path) -> None:
    """Rename, first moving a folder with this name away: a folder cannot be renamed over one with files."""
    if target.is_dir():
        aside = Path(tempfile.mkdtemp(prefix=f"{_SAVING}{rank()}-{os.getpid()}-", dir=target.parent))
        try:
            os.replace(target, aside / "old")
            os.replace(written, target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return
    if written == saving and target.exists():
        target.unlink()
    os.replace(written, target)


def _describe(file: Path, step: int | None, metrics: Mapping[str, float | None]) -> None:
    """Write the description of a checkpoint; without one, its name and the last report describe it."""
    with _lock:
        last = dict(_last)
    if not metrics and last and step in (None, last["step"]):
        step, metrics = last["step"], last["metrics"]
    if step is None and not metrics:
        file.unlink(missing_ok=True)
        return
    _replace(file, {"step": None if step is None else int(step), "metrics": dict(metrics)})


def _replace(file: Path, data: Mapping[str, Any]) -> None:
    """Write the file atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        new.write_text(json.dumps(data, allow_nan=False))
        os.replace(new, file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _append(file: Path, data: Mapping[str, Any]) -> None:
    """Append in one write, so that lines of several processes do not mix."""
    line = f"{json.dumps(data, allow_nan=False)}\n".encode()
    if len(line) > _MOST_LINE:
        raise ValueError(f"too many metrics in one report: {len(line)} bytes, {_MOST_LINE} at most")
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def _print(line: Mapping[str, Any]) -> None:
    of = f"/{line['total']}" if line["total"] is not None else ""
    metrics = (f"{name}={'nan' if value is None else format(value, 'g')}" for name, value in line["metrics"].items())
    print(" ".join([f"step {line['step']}{of}", *metrics, *filter(None, [line["message"]])]), flush=True)  # noqa: T201


def _is_checkpoint(name: str) -> bool:
    return bool(name) and not name.startswith(".") and not name.endswith(_UNFINISHED)


def _age(entry: Path) -> tuple[int, int]:
    try:
        return entry.stat().st_mtime_ns, _number_of(entry.name)
    except FileNotFoundError:  # another process replaced it with a newer one
        return 0, 0


def _number_of(name: str) -> int:
    found = _ENDS_IN_NUMBER.search(name)
    return int(found[1]) if found else -1


def _clear_unfinished(folder: Path) -> None:
    """Remove partial checkpoints of an attempt of this replica that was killed while saving."""
    for left in folder.glob(f"{_SAVING}{rank()}-*"):
        owner = left.name[len(_SAVING) :].split("-")[1]
        if owner != str(os.getpid()) and not _alive(owner):
            shutil.rmtree(left, ignore_errors=True)


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError):
        return True
    return True


def _make_folder(name: str) -> Path:
    folder = Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _sync(path: Path) -> None:
    """Flush a path, with everything in it, to disk."""
    if not path.is_dir():
        _sync_file(path)
        return
    for inner, _, names in os.walk(path):
        for name in names:
            _sync_file(Path(inner, name))
        _sync_folder(Path(inner))


def _sync_file(file: Path) -> None:
    if file.is_symlink() or not file.is_file():
        return
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
