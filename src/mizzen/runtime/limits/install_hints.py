"""Hints for a missing module: how to install it where the model runs."""

from __future__ import annotations

from collections.abc import Mapping

from mizzen.frameworks import Framework

_PACKAGES = {
    "PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "dateutil": "python-dateutil",
    "google": "protobuf", "skimage": "scikit-image", "sklearn": "scikit-learn", "yaml": "pyyaml",
}  # fmt: skip
"""Maps a module's name to its package, if the names differ."""


def advice(module: str, environ: Mapping[str, str], framework: Framework | None = None) -> str:
    """Return how to fix it. `framework`: the one that needs it; None: the model itself does.

    In its own environment a model finds only its version's requirements, not packages that are installed elsewhere.
    """
    top = module.partition(".")[0]
    package = _PACKAGES.get(top, top)
    if environ.get("MIZZEN_ENVIRONMENT"):
        return f"add {package} to the requirements of the version"
    return framework.install if framework is not None else f"pip install {package}"
