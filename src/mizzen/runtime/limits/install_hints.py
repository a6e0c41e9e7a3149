"""What to say of a module that is not there: how it comes to where the model runs."""

from __future__ import annotations

from collections.abc import Mapping

from mizzen.frameworks import Framework

_PACKAGES = {
    "PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "dateutil": "python-dateutil",
    "google": "protobuf", "skimage": "scikit-image", "sklearn": "scikit-learn", "yaml": "pyyaml",
}  # fmt: skip
"""By the name of a module, that of the package that brings it, where it is another."""


def advice(module: str, environ: Mapping[str, str], framework: Framework | None = None) -> str:
    """What to do about it. `framework`: the one that needs it; None: the model itself does.

    In an environment of its own a model finds what its version requires, whatever is installed elsewhere.
    """
    top = module.partition(".")[0]
    package = _PACKAGES.get(top, top)
    if environ.get("MIZZEN_ENVIRONMENT"):
        return f"add {package} to the requirements of the version"
    return framework.install if framework is not None else f"pip install {package}"
