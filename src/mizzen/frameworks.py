"""The one table of frameworks: by which files each is known, what serves it, and what has to be installed for that.

Standard library only: the plane reads it, and so does a runtime in the user's environment. A framework that is not here
is odd, not wrong: a plug-in may bring it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Framework:
    name: str
    suffixes: tuple[str, ...] = ()
    """Of its files. Several frameworks may share one: then the content decides."""
    files: tuple[str, ...] = ()
    """Names that say by themselves what a folder is."""
    loader: str | None = None
    """The module of the runtime that serves it; None: nothing does yet."""
    packages: tuple[str, ...] = ()
    """What the loader imports that is not part of a plain installation."""
    extra: str | None = None
    """The extra of this package that brings them."""
    monitor: str = "scalars"
    """What shows its training: `tensorboard`, or our own viewer."""

    @property
    def install(self) -> str:
        return f"pip install 'mizzen[{self.extra}]'"


PICKLES: Final = (".joblib", ".pkl", ".pickle")
NO_TORCH_PROGRAM: Final = (
    "weights or a pickled module of PyTorch, without the program: write it with "
    "torch.jit.script(model).save('model.pt') or torch.export.save(torch.export.export(model, example), 'model.pt2'), "
    "or deploy it in a folder with a Python class that makes the module and reads the weights with "
    "torch.load(path, weights_only=True)"
)
"""What to do about a file that cannot be called."""
_LOADERS: Final = "mizzen.runtime.frameworks"

TABLE: Final[dict[str, Framework]] = {
    framework.name: framework
    for framework in (
        Framework(
            "sklearn", (*PICKLES, ".skops"), (), f"{_LOADERS}.sklearn",
            ("sklearn", "joblib", "threadpoolctl", "scipy"), "sklearn",
        ),
        Framework(
            "xgboost", (".ubj", ".json", ".model", ".xgb", *PICKLES), (), f"{_LOADERS}.xgboost",
            ("xgboost", "scipy", "sklearn"), "xgboost",
        ),
        Framework(
            "lightgbm", (".txt", ".lgb", *PICKLES), (), f"{_LOADERS}.lightgbm",
            ("lightgbm", "scipy", "sklearn"), "lightgbm",
        ),
        Framework("onnx", (".onnx",), (), f"{_LOADERS}.onnx", ("onnxruntime",), "onnx"),
        Framework(
            "tensorflow", (".keras",), ("saved_model.pb",), f"{_LOADERS}.tensorflow",
            ("tensorflow", "keras"), "tensorflow", monitor="tensorboard",
        ),
        Framework(
            "pytorch", (".pt", ".pth", ".pt2"), (), f"{_LOADERS}.pytorch", ("torch",), "torch", monitor="tensorboard",
        ),
        Framework("mlflow", (), ("MLmodel",), f"{_LOADERS}.mlflow", ("yaml", "mlflow", "pandas"), "mlflow"),
        Framework("python", (".py", ".cloudpickle"), (), f"{_LOADERS}.python"),
    )
}  # fmt: skip

NAMES: Final = tuple(TABLE)
SERVED: Final = tuple(name for name, framework in TABLE.items() if framework.loader)
"""Those the runtime that comes with Mizzen can serve."""
