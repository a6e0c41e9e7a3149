"""What a program is told that answers HTTP: its port, and what `$(NAME)` stands for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

PORT = "MIZZEN_PORT"
PORT_NAMES = (PORT, "PORT", "PREDICTIVE_UNIT_SERVICE_PORT", "PREDICTIVE_UNIT_HTTP_SERVICE_PORT")
"""Most hosts say it by PORT; Seldon's wrappers read theirs."""

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expanded(
    command: Iterable[str], env: Mapping[str, str], port: int
) -> tuple[tuple[str, ...], dict[str, str], dict[str, str]]:
    """The command; the variables, of which one may speak of those before it; and those of the port, which are nobody
    else's to set."""
    ours = dict.fromkeys(PORT_NAMES, str(port))
    known = dict(ours)
    for name, value in env.items():
        known.setdefault(name, expand(value, known))
    own = {name: known[name] for name in env if name not in ours}
    return tuple(expand(word, known) for word in command), own, ours


def expand(text: str, known: Mapping[str, str]) -> str:
    """`$(NAME)` is the value of that variable, or stays when there is none; `$$` is a `$` that begins nothing."""
    return _REFERENCE.sub(lambda found: found[1] or known.get(found[2], found[0]), text)
