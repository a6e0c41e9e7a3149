"""The command and variables of an HTTP server: its port, and the expansion of `$(NAME)`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

PORT = "MIZZEN_PORT"
PORT_NAMES = (PORT, "PORT", "PREDICTIVE_UNIT_SERVICE_PORT", "PREDICTIVE_UNIT_HTTP_SERVICE_PORT")
"""Most hosting platforms use PORT; Seldon's wrappers read their own variables."""

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expand_all(
    command: Iterable[str], env: Mapping[str, str], port: int
) -> tuple[tuple[str, ...], dict[str, str], dict[str, str]]:
    """The command; the variables, each of which may refer to earlier ones; and those of the port, which a spec cannot
    override."""
    ours = dict.fromkeys(PORT_NAMES, str(port))
    known = dict(ours)
    for name, value in env.items():
        known.setdefault(name, expand(value, known))
    own = {name: known[name] for name in env if name not in ours}
    return tuple(expand(word, known) for word in command), own, ours


def expand(text: str, known: Mapping[str, str]) -> str:
    """`$(NAME)` becomes the value of that variable, or stays when there is none; `$$` becomes a literal `$`."""
    return _REFERENCE.sub(lambda found: found[1] or known.get(found[2], found[0]), text)
