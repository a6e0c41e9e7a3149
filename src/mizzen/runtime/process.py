"""One runtime process: load one model, then answer frames on MIZZEN_SOCKET until TERM.

If the model cannot be loaded, the process gives up for good: one line to MIZZEN_TERMINATION_LOG, the traceback to
stderr, exit code 78. The watchdog ends a process that is stuck in a call, with exit code 70; it may be started again.
The process does not die with its parent: a new supervisor adopts it.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

from mizzen.protocol.frames import authentication
from mizzen.runtime import batching, declared_signature, frame_server
from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel, LoadError, LoadRequest
from mizzen.runtime.limits import install_hints, memory, watchdog
from mizzen.runtime.reload import Reload

EXIT_PERMANENT = 78
_ERROR_SECONDS = 1.0
_OURS = (str(Path(__file__).parent), str(Path(importlib.__file__).parent), "<frozen importlib")
"""Files of the stack frames between the runtime and the model's own code."""

log = logging.getLogger("mizzen.runtime")


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a user's terminal is not for this process
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # so that the model's output reaches the log at once
    _set_up_log()
    last_words = environ.get("MIZZEN_TERMINATION_LOG")
    try:
        wanted = _parse_arguments(arguments)
        path, folder = _require(environ, "MIZZEN_SOCKET"), Path(_require(environ, "MIZZEN_ARTIFACTS"))
        files = environ.get("MIZZEN_ARTIFACTS_DIGEST", "")
        keyed = environ.get("MIZZEN_SOCKET_KEY")
        key = authentication.load_or_create(Path(keyed)) if keyed else b""
        if environ.get("MIZZEN_RELOADED"):  # the previous process had loaded other parameters than it began with
            folder, files = Path(environ["MIZZEN_RELOADED"]), environ.get("MIZZEN_RELOADED_DIGEST", "")
    except LoadError as error:
        return _give_up(error, last_words)
    log.info("start: pid %d loads %s %s", os.getpid(), wanted.framework, wanted.entrypoint)
    try:
        model = registry.load_wanted(wanted, folder)
    except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
        if memory.is_memory_limit(error, environ):
            memory.end(error, environ)
        return _give_up(error, last_words)
    # The model lives as long as the process: the garbage collector need not traverse it every time.
    gc.collect()
    gc.freeze()

    def reload(old: LoadedModel, wish: Reload) -> LoadedModel:
        entrypoint = wanted.entrypoint if wish.entrypoint is None else wish.entrypoint
        trusted = wanted.trusted if wish.trusted is None else wish.trusted
        return registry.reload(old, replace(wanted, entrypoint=entrypoint, trusted=trusted), wish.folder)

    frame_server.serve(model, path, watchdog.Watchdog(last_words), reload, files=files, key=key).close()
    log.info("exit")
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise LoadError(message)


def _parse_arguments(arguments: Sequence[str]) -> LoadRequest:
    parser = _Parser(prog="python -m mizzen.runtime", description=__doc__)
    parser.add_argument("--framework", required=True)
    parser.add_argument("--entrypoint", required=True, help="a file among the artifacts, or module:object")
    parser.add_argument("--trusted", action="store_true", help="the artifacts may be unpickled")
    parser.add_argument("--batch", action="store_true", help="requests may share a call of a Python model")
    parser.add_argument("--inputs", help="its inputs, as a JSON list of {name, datatype, shape}")
    parser.add_argument("--outputs", help="its default outputs, in the same form")
    words = parser.parse_args(arguments)
    inputs = declared_signature.read(words.inputs, "--inputs")
    outputs = declared_signature.read(words.outputs, "--outputs")
    return LoadRequest(words.framework, words.entrypoint, words.trusted, words.batch, inputs, outputs)


def _require(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    if not value:
        raise LoadError(f"{name} is not set")
    return value


def _give_up(error: BaseException, termination_log: str | None) -> int:
    _print_from_the_model_on(error)
    message = _last_words(error)
    log.error("giving up: %s", message)
    watchdog.leave_last_words(termination_log, message)
    return EXIT_PERMANENT


def _print_from_the_model_on(error: BaseException) -> None:
    """Print the traceback from the model's code on. Its author reads this in the log of a failed deployment; the frames
    before it would not help."""
    link: BaseException | None = error
    seen = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        theirs = None if isinstance(link, LoadError) else link.__traceback__
        while theirs is not None and theirs.tb_frame.f_code.co_filename.startswith(_OURS):
            theirs = theirs.tb_next
        if theirs is not None or isinstance(error, LoadError):  # else it is Mizzen's own fault: keep all
            link.__traceback__ = theirs
        link = link.__cause__ or link.__context__
    traceback.print_exception(error)


def _last_words(error: BaseException) -> str:
    """One line."""
    if isinstance(error, LoadError):
        return " ".join(str(error).split())
    hint = ""
    if isinstance(error, ModuleNotFoundError) and error.name:
        hint = f"; the model needs it: {install_hints.advice(error.name, os.environ)}"
    return " ".join(batching.describe_error(error).split()) + hint


def _set_up_log() -> None:
    """Configure only Mizzen's own logger: the user's code configures logging as it likes."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    handler.addFilter(_FewerErrors())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


class _FewerErrors(logging.Filter):
    """A model that fails for every request must not fill the disk: one error per second is enough to see why."""

    _last = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.ERROR:
            return True
        if record.created - self._last < _ERROR_SECONDS:
            return False
        self._last = record.created
        return True
