"""Batching: few calls of the model answer many requests, and each request gets exactly its own rows or its own error.

Requests of one form are decoded together. If the model works row by row (`batch`), one call answers them. A request
that cannot be decoded fails alone. If a shared call raises, each of its requests is retried alone, so one bad input
does not fail the others. An answer whose rows do not match those sent is not delivered to any caller.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mizzen.protocol import tensors
from mizzen.protocol.frames import framing
from mizzen.protocol.tensors import Array
from mizzen.runtime import caller_context, inputs, outputs, signature
from mizzen.runtime.caller_context import Callers
from mizzen.runtime.frameworks.model import BadInput, LoadedModel
from mizzen.runtime.limits import memory
from mizzen.runtime.limits.watchdog import Running

MAX_ROWS = 8192
"""Maximum rows of one shared call; a single request may have more."""

_MAX_MESSAGE = 2000
_UNANSWERED = (framing.MODEL_FAILED, b"not answered")

Result = tuple[int, bytes]
"""Status and payload, as in a REPLY frame."""

log = logging.getLogger("mizzen.runtime")


class RequestedOutputs(NamedTuple):
    """The outputs and format that the requests of one form ask for."""

    outputs: tuple[str, ...]
    style: outputs.Style


class Answers(NamedTuple):
    results: list[Result]
    """One per request, in request order."""
    service_us: int
    """Time spent in the model."""
    before_us: int
    """Time before the first call; `after_us` is all other time outside the model."""
    after_us: int


def answer(
    model: LoadedModel,
    requests: Sequence[Any],
    callers: Callers | None = None,
    *,
    max_rows: int = MAX_ROWS,
    clock: Callable[[], float] = time.monotonic,
    running: Running | None = None,
) -> Answers:
    """Answer every request in the bodies of some INFER frames. Never raises because of a request or the model, except
    OutOfMemory, after which the process must end.

    `callers` are those of the requests; `running` records each call of the model.
    """
    began = clock()
    batch = _Batch(model, requests, callers or Callers(), clock, running or Running())
    for (names, style, *_), places in batch.group_requests().items():
        batch.answer_group(RequestedOutputs(names, style), places, max_rows)
    now = clock()
    before = (batch.called_at or now) - began
    return Answers(
        batch.results, int(batch.seconds * 1e6), int(before * 1e6), int((now - began - before - batch.seconds) * 1e6)
    )


def describe_error(error: BaseException) -> str:
    """Return the error's type and message; only its type if reading the message fails, since that is user code too."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001
        return type(error).__name__


class _Batch:
    """Requests and their results, by index."""

    __slots__ = (
        "_callers", "_clock", "_model", "_requests", "_rows", "_running", "_targets", "called_at", "results", "seconds",
    )  # fmt: skip

    def __init__(
        self,
        model: LoadedModel,
        requests: Sequence[Any],
        callers: Callers,
        clock: Callable[[], float],
        running: Running,
    ) -> None:
        self._model = model
        self._callers = callers
        self._requests = list(requests)
        self._rows = [0] * len(requests)
        self._targets = {spec.name: tensors.DATATYPES[spec.datatype] for spec in model.inputs} if model.strict else {}
        if model.table is not None:
            self._targets[model.table.name] = tensors.DATATYPES[model.table.datatype]
        self._clock = clock
        self._running = running
        self.results: list[Result] = [_UNANSWERED] * len(requests)
        self.seconds = 0.0
        self.called_at: float | None = None
        """When the model was first called."""

    def group_requests(self) -> dict[inputs.Form, list[int]]:
        """Return the indexes of requests that can be answered together. Malformed requests are answered here."""
        found: dict[inputs.Form, list[int]] = {}
        merge = self._model.batch
        # If the previous request has one tensor: its form and its group. Most requests are like the one before.
        before: list[Any] | None = None
        together: list[int] = []
        rows = length = 0
        for place, request in enumerate(self._requests):
            try:
                parts = len(request)
                plain = parts == 2 or (parts == 3 and request[2] is True)
                simple = plain and request[1] is None and len(request[0]) == 1
                same = simple and parts == length and request[0][0][:4] == before
                if same and type(request[0][0][4]) is bytes:
                    self._rows[place] = rows
                    together.append(place)
                    continue
                before = None
                if len(request) == 1:
                    self._requests[place] = inputs.of_v1(request[0], self._model.inputs)
                form, rows = inputs.form_of(self._requests[place], merge=merge)
                together = found.setdefault(form, [])
            except (TypeError, ValueError) as error:
                self.results[place] = _bad_input(str(error))
                continue
            except MemoryError as error:
                self.results[place] = _too_large(error, place)
                continue
            self._rows[place] = rows
            together.append(place)
            before = request[0][0][:4] if simple else None
            length = parts
        return found

    def answer_group(self, wish: RequestedOutputs, places: list[int], max_rows: int) -> None:
        """Answer requests of one form: either all fit the signature, or none does."""
        if self._find_fault(self._requests[places[0]]):
            for place in places:
                self.results[place] = _bad_input(self._find_fault(self._requests[place]) or "does not fit the model")
        elif not self._model.batch:
            for place in places:
                self._answer_alone(wish, place)
        else:
            for chunk in _split_chunks(places, self._rows, max_rows):
                self._answer_chunk(wish, chunk)

    def _find_fault(self, request: Any) -> str | None:
        model = self._model
        if not model.strict:
            return None
        known = [spec.name for spec in model.outputs]
        table = model.table
        rows = table is not None and [given[0] for given in request[0]] == [table.name]
        return signature.inputs_fault((table,) if table and rows else model.inputs, request[0]) or (
            signature.outputs_fault(known, request[1] or ()) if known else None
        )

    def _answer_chunk(self, wish: RequestedOutputs, places: list[int]) -> None:
        """Answer all decodable requests with one call."""
        if len(places) == 1:
            self._answer_alone(wish, places[0])
            return
        arrays = inputs.decode_joined([self._requests[place] for place in places], self._targets, self._model.refuses)
        if arrays is None:
            decoded = {}
            for place in places:
                try:
                    decoded[place] = inputs.decode(self._requests[place], self._targets, self._model.refuses)
                except ValueError as error:
                    self.results[place] = _bad_input(str(error))
            if not decoded:
                return
            places, arrays = list(decoded), inputs.concatenate(list(decoded.values()))
        self._answer_together(wish, places, arrays)

    def _answer_together(self, wish: RequestedOutputs, places: list[int], arrays: dict[str, Array]) -> None:
        given: dict[str, Array] | None = None
        try:
            given = self._call(arrays, wish.outputs, places)
        except _Unknown as error:
            self._set(places, [_bad_input(str(error))] * len(places))
            return
        except _Raised:
            pass  # each is retried alone, and its own error is reported
        if given is None:
            # Decode again for each: the call may have changed the shared arrays in place before it raised.
            for place in places:
                self._answer_alone(wish, place)
            return
        rows = [self._rows[place] for place in places]
        fault = _find_rows_fault(given, sum(rows))
        if fault:
            log.error("%s (%s)", fault, self._callers.describe(places))
            self._set(places, [_failure(fault)] * len(places))
            return
        try:
            self._set(places, [(framing.OK, text) for text in outputs.encode_rows(given, rows, wish.style)])
        except ValueError:
            self._set(places, _encode_one_by_one(given, rows, wish.style))

    def _answer_alone(self, wish: RequestedOutputs, place: int) -> None:
        try:
            arrays = inputs.decode(self._requests[place], self._targets, self._model.refuses)
            given = self._call(arrays, wish.outputs, [place])
        except (ValueError, _Unknown) as error:
            self.results[place] = _bad_input(str(error))
            return
        except MemoryError as error:  # of ours: those of the model are _Raised
            self.results[place] = _too_large(error, place)
            return
        except _Raised as raised:
            cause = raised.__cause__
            if isinstance(cause, BadInput):
                self.results[place] = _bad_input(str(cause))
                return
            odd = inputs.not_finite(self._requests[place]) if isinstance(cause, ValueError) else None
            if odd is not None and cause is not None:
                self.results[place] = _bad_input(
                    f"input '{odd}' holds NaN or Infinity, and the model raised {describe_error(cause)}"
                )
                return
            log.exception("the model raised (%s)", self._callers.describe([place]), exc_info=cause)
            self.results[place] = _failure(describe_error(cause) if cause else "")
            return
        fault = _find_rows_fault(given, self._rows[place]) if self._model.batch else None
        try:
            self.results[place] = _failure(fault) if fault else _encode(given, wish.style)
        except MemoryError as error:
            self.results[place] = _too_large(error, place)

    def _set(self, places: list[int], results: list[Result]) -> None:
        for place, result in zip(places, results, strict=True):
            self.results[place] = result

    def _call(self, arrays: dict[str, Array], wanted: tuple[str, ...], places: list[int]) -> dict[str, Array]:
        """Return the wanted outputs, in order. Raises _Raised for any error of the model's code, _Unknown for an
        unknown name."""
        caller_context.begin(self._callers, places, self._rows, arrays)
        started = self._running.since = self._clock()
        if self.called_at is None:
            self.called_at = started
        try:
            given = self._model.call(arrays, wanted)
        except BaseException as error:  # the user's code may raise anything; it must not end the process
            if memory.is_memory_limit(error, os.environ):
                raise memory.OutOfMemory(places) from error
            raise _Raised from error
        finally:
            self._running.since = None
            caller_context.end()
            self.seconds += self._clock() - started
        fault = signature.outputs_fault(given, wanted)
        if fault:
            raise _Unknown(fault)
        return {name: given[name] for name in wanted} if wanted else given


class _Raised(Exception):
    """The model raised; `__cause__` is its error."""


class _Unknown(Exception):
    """The model does not have this output."""


def _split_chunks(places: list[int], rows: list[int], max_rows: int) -> Iterator[list[int]]:
    chunk: list[int] = []
    total = 0
    for place in places:
        if chunk and total + rows[place] > max_rows:
            yield chunk
            chunk, total = [], 0
        chunk.append(place)
        total += rows[place]
    yield chunk


def _encode_one_by_one(given: Mapping[str, Array], rows: list[int], style: outputs.Style) -> list[Result]:
    """Encode requests one by one: if JSON cannot represent a row, only its own request fails."""
    results, at = [], 0
    for count in rows:
        results.append(_encode({name: array[at : at + count] for name, array in given.items()}, style))
        at += count
    return results


def _encode(given: Mapping[str, Array], style: outputs.Style) -> Result:
    try:
        return framing.OK, outputs.encode_whole(given, style)
    except ValueError as error:
        return _failure(str(error))


def _find_rows_fault(given: Mapping[str, Array], rows: int) -> str | None:
    for name, array in given.items():
        if array.ndim == 0 or len(array) != rows:
            shape = list(array.shape)
            return f"the model must return one row per input row: output '{name}' has shape {shape} for {rows} rows"
    return None


def _too_large(error: MemoryError, place: int) -> Result:
    """Return the result of a request that needs more memory than there is. Raises OutOfMemory under a limit."""
    if memory.is_memory_limit(error, os.environ):
        raise memory.OutOfMemory([place]) from error
    return _failure(describe_error(error))


def _bad_input(message: str) -> Result:
    return framing.BAD_INPUT, message[:_MAX_MESSAGE].encode(errors="replace")


def _failure(message: str) -> Result:
    return framing.MODEL_FAILED, message[:_MAX_MESSAGE].encode(errors="replace")
