"""The number of threads a model's libraries may use: MIZZEN_THREADS, so that runtimes do not compete for cores.

The libraries read their own variables once, when they are loaded: `limit` must run before the first import of numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

VARIABLE = "MIZZEN_THREADS"
_LIBRARIES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS", "LOKY_MAX_CPU_COUNT",
)  # fmt: skip


def limit(environ: MutableMapping[str, str]) -> None:
    """Set the libraries' variables. A variable that is already set is kept."""
    most = thread_limit(environ)
    if most is not None:
        for variable in _LIBRARIES:
            environ.setdefault(variable, str(most))


def thread_limit(environ: Mapping[str, str]) -> int | None:
    """Return the limit; None if there is none. An invalid number counts as none: a model can run without it."""
    text = environ.get(VARIABLE, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None
