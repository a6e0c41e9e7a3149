"""Names of the package: modules and classes are nouns of the field, functions are verbs."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from tools.lint.files import File, Finding

MODULES = frozenset({
    "apart", "chorus", "census", "crew", "door", "emptying", "errand", "family", "freeing", "gathering", "happenings",
    "keeping", "lanes", "line", "making", "marks", "meaning", "mentions", "naps", "outliving", "pace",
    "past", "people", "printed", "printing", "repeats", "room", "rooms", "settled", "shelf", "shown", "sight",
    "skimming", "straight", "surroundings", "sweeper", "tally", "telling", "truths", "turns", "undoing", "visits",
    "waiting", "watched", "whole", "word", "words",
})  # fmt: skip
"""Metaphors that cost every reader a lookup."""
CLASSES = frozenset({
    "Asked", "Carried", "Census", "Chorus", "Crew", "Crowd", "Desk", "Door", "Errand", "Family", "Found", "Given",
    "Guest", "Happenings", "Kept", "Known", "Making", "Nap", "Naps", "Pace", "Place", "Placed", "Said", "Seen", "Sent",
    "Served", "Settled", "Shelf", "Shown", "Sight", "Song", "Stranger", "Surroundings", "Talk", "Talks", "Teller",
    "Telling", "Told", "Turned", "Turns", "Visit", "Voice", "Wanted", "Wish", "Word", "Written",
})  # fmt: skip
"""They stood for unrelated things in several modules, or for nothing a reader could guess."""
PARTICIPLES = frozenset({
    "begun", "borne", "brought", "built", "caught", "chosen", "done", "drawn", "driven", "felt", "given", "gone",
    "grown", "heard", "held", "hidden", "kept", "known", "laid", "learnt", "led", "lent", "lost", "made", "meant",
    "met", "paid", "said", "seen", "sent", "shown", "spent", "spoken", "stood", "taken", "thought", "told", "torn",
    "understood", "woken", "worn", "written",
})  # fmt: skip
VERBS_IN_ED = frozenset({"embed", "exceed", "feed", "heed", "need", "proceed", "seed", "shed", "speed", "succeed"})
ALLOWED = frozenset({
    "cancelled", "closed", "locked",  # what asyncio calls them
    "done",  # what workqueues call it
    "known", "pickled", "served", "stored",  # documented for plug-ins and users of the SDK
})  # fmt: skip

SHARED_CLASSES: dict[str, str] = {}
"""Public class names that two modules may define, and why."""


def module_name(file: File) -> Iterator[Finding]:
    if file.module and file.path.stem in MODULES:
        yield Finding(file.path, f"'{file.path.stem}' is a metaphor: name the module after what it holds")


def class_names(file: File) -> Iterator[Finding]:
    if not file.module:
        return
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ClassDef) and node.name.lstrip("_") in CLASSES:
            yield Finding(
                file.path, f"'{node.name}' says nothing: name the class with a noun of the field", node.lineno
            )


def function_names(file: File) -> Iterator[Finding]:
    if not file.module:
        return
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_property(node):
            continue
        if is_participle(node.name.strip("_")) and node.name not in ALLOWED:
            yield Finding(file.path, f"'{node.name}' is a participle: functions are verbs", node.lineno)


def shared_class_names(files: Sequence[File]) -> Iterator[Finding]:
    """Public class names that two modules of the package define: one name has one meaning."""
    places: dict[str, list[tuple[File, int]]] = defaultdict(list)
    for file in files:
        if file.module:
            for node in ast.walk(file.tree):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append((file, node.lineno))
    for name, ((first, _), *others) in places.items():
        for file, line in others:
            if file.path != first.path and name not in SHARED_CLASSES:
                yield Finding(file.path, f"'{name}' is a class of {first.path}, too: rename the less central one", line)


def is_participle(name: str) -> bool:
    """Is it `told`, `told_of` or `listed`? `cached_struct` is a noun with its adjective."""
    first, _, rest = name.partition("_")
    return first in PARTICIPLES or (not rest and name.endswith("ed") and len(name) > 3 and name not in VERBS_IN_ED)


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        "property" in ast.unparse(one) or ast.unparse(one).endswith(".setter") for one in function.decorator_list
    )


RULES: tuple[Callable[[File], Iterator[Finding]], ...] = (module_name, class_names, function_names)
