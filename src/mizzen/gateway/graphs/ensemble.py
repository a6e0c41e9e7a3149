"""Graphs that are one ensemble: some nodes get the request, one merges what they answer. Without a walk.

Each request has one call for each member and one list for what they answer. Nothing here behaves otherwise than a walk
does: where one member fails, those before it are waited for, and those behind it are not.
"""

from __future__ import annotations

from typing import Any

from mizzen.gateway.graphs.bound_graph import BoundGraph
from mizzen.gateway.graphs.targets import Errand, Target
from mizzen.gateway.inference.calls import BAD_REQUEST, FAILED, LOST, OK, Call
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.response_parameters import Notes, Value
from mizzen.graph import merging, messages
from mizzen.graph.fast_mean import Means
from mizzen.graph.prepared_nodes import Shape
from mizzen.protocol.v2 import Entry
from mizzen.selection.records.record import what_of


class Chorus:
    """One ensemble, and who is in it."""

    __slots__ = (
        "bound", "conductor", "keys", "means", "order", "place", "tallies", "targets", "told", "votes", "weights",
    )  # fmt: skip

    def __init__(self, bound: BoundGraph) -> None:
        *singers, conductor = bound.shapes
        merge = conductor.merge
        assert merge is not None
        self.bound = bound
        self.conductor = conductor
        self.place = conductor.place
        self.targets: list[Target] = [shape.target for shape in singers]
        self.tallies = bound.tallies
        self.order = conductor.node.dependencies
        """Members as the ensemble lists them."""
        self.keys = [bound.shapes[place].name for place in self.order]
        self.weights = list(conductor.weights)
        self.votes = merge.kind == "vote"
        self.means = Means(self.weights, merge.threshold)
        names = [shape.name for shape in bound.shapes]
        parameters: dict[str, Value] = {"nodes": ",".join(names)}
        what = b""
        if bound.keeper is not None:
            ran = [(shape.name, shape.target.version) for shape in singers]
            what = what_of(bound.graph.generation, [], ran)
        self.told = Notes(parameters, bound.keeper, what)

    def submit(self, call: Call) -> None:
        item = call.item
        if not isinstance(call, Inference) or len(item) == 1:
            self.bound.submit(call)
            return
        song = Song(self, call)
        call.work = song
        entries, names = item[0], item[1]
        now = call.began
        voices = song.voices = [Voice(song, place) for place in range(len(self.targets))]
        tallies = self.tallies
        for voice, target in zip(voices, self.targets, strict=True):
            if not voice.live:
                continue  # one before it has failed already
            tallies[voice.place].ran += 1
            voice.begin(call, target, entries, names, now)


def is_chorus(bound: BoundGraph) -> bool:
    *singers, conductor = bound.shapes
    merge, count = conductor.merge, len(singers)
    if merge is None or merge.kind == "call" or merge.partial or count < 2 or conductor.node.call is not None:
        return False
    if sorted(conductor.node.dependencies) != list(range(count)) or conductor.node.children:
        return False
    return _is_plain(conductor) and all(
        _is_plain(shape) and not shape.width and shape.target is not None and shape.node.children == (count,)
        for shape in singers
    )


def _is_plain(shape: Shape) -> bool:
    return shape.route is None and shape.timeout is None and not shape.skip and not shape.lacking


class Song:
    """One request."""

    __slots__ = ("_call", "_failure", "_left", "_lost", "_payloads", "chorus", "voices")

    def __init__(self, chorus: Chorus, call: Inference) -> None:
        count = len(chorus.targets)
        self.chorus = chorus
        self._call = call
        self._left = count
        self._payloads: list[bytes] = [b""] * count
        self._lost = count
        """The first that has failed."""
        self._failure: tuple[int, bytes, int, bytes] = (OK, b"", 1, b"")
        self.voices: list[Voice] = []

    def answered(self, place: int, payload: bytes, now: float) -> None:
        self._payloads[place] = payload
        self._left -= 1
        if not self._left:
            self._end(now)

    def failed(self, place: int, failure: tuple[int, bytes, int, bytes], now: float) -> None:
        self._left -= 1
        if place < self._lost:
            self._lost, self._failure = place, failure
            for voice in self.voices[place + 1 :]:
                if voice.live:
                    self._left -= 1
                    voice.drop(now)
        if not self._left:
            self._end(now)

    def abandon(self) -> None:
        now = self.chorus.bound.clock()
        for voice in self.voices:
            voice.drop(now)

    def _end(self, now: float) -> None:
        call, chorus = self._call, self.chorus
        call.work = None
        self.voices = []  # which know it: without this, only the collector of garbage would end all of them
        if self._failure[0] != OK:
            code, text, retry, lacking = self._failure
            call.settle(code, text, now, retry, lacking=lacking)
            return
        _, names, *raw = call.item
        payloads = [self._payloads[place] for place in chorus.order]
        looks = chorus.bound.looks(len(payloads))
        payload = None if raw or looks or chorus.votes else chorus.means.text(payloads)
        try:
            if payload is None:
                payload = self._merged(payloads, names, raw[0] if raw else None, looks)
        except ValueError as fault:
            code = BAD_REQUEST if isinstance(fault, messages.Unwanted) else LOST
            call.settle(code, str(fault).encode(), now)
            return
        chorus.tallies[chorus.place].ran += 1
        call.notes = chorus.told
        if chorus.bound.keeper is not None:
            call.members = list(zip(chorus.keys, payloads, strict=True))
        call.settle(OK, payload, now)

    def _merged(self, payloads: list[bytes], names: list[str] | None, raw: Any, looks: bool) -> bytes:
        chorus = self.chorus
        members = []
        for key, weight, payload in zip(chorus.keys, chorus.weights, payloads, strict=True):
            try:
                entries = messages.of_reply(payload)
            except ValueError as fault:
                raise ValueError(f"node '{key}': its answer cannot be read: {fault}") from None
            members.append(merging.Member(key, weight, entries))
        try:
            merged = merging.vote(members)[0] if chorus.votes else merging.mean(members, chorus.means.threshold)
        except ValueError as fault:
            raise ValueError(f"node '{chorus.conductor.name}': {fault}") from None
        if looks:
            chorus.bound.compare(chorus.conductor, members)
        if names:
            merged = messages.chosen(merged, names)
        try:
            return messages.to_payload(merged, raw)
        except ValueError as fault:
            raise ValueError(f"node '{chorus.conductor.name}': {fault}") from None


class Voice(Errand):
    """The call of one member."""

    __slots__ = ("_song", "place")

    def __init__(self, song: Song, place: int) -> None:
        self._song = song
        self.place = place
        self.live = True

    def begin(self, call: Inference, target: Target, entries: list[Entry], names: list[str] | None, now: float) -> None:
        self.sent(target, call, now, call.deadline)
        self.size = call.size
        signature = target.signature
        if signature is not None:
            try:
                entries = signature.adapt(entries)
            except ValueError as fault:
                self.settle(BAD_REQUEST, str(fault).encode(), now)
                return
        self.item = (entries, names, True)
        target.submit(self)

    def drop(self, now: float) -> None:
        """Nobody wants it any more; it may not have been sent yet."""
        if hasattr(self, "target"):
            self.cancel(now)
        self.live = False

    def ended(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        song, place = self._song, self.place
        chorus = song.chorus
        chorus.tallies[place].ended(code, now - self.began)
        if code == OK:
            song.answered(place, payload, now)
            return
        name = chorus.bound.shapes[place].name.encode()
        song.failed(place, (LOST if code == FAILED else code, b"node '%b': %b" % (name, payload), retry, lacking), now)
