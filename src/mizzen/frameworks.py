"""The one table of frameworks: by which files each is known, what trains, serves and shows it, and what has to be
installed for that.

Standard library only: the plane reads it, and so does a runtime in the user's environment. Packages of others bring
more, by entry points (`mizzen/plugins.py`): whoever asks for all there are asks `known`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from mizzen import plugins
from mizzen.plugins import Broken

if TYPE_CHECKING:
    from typing import Self  # newer than the oldest Python a runtime works with

WORD: Final = re.compile(r"[a-z][-_.a-z0-9]{0,62}")
"""What a framework may be called."""


TRAINER: Final = "train.py"


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
    trainer: str = TRAINER
    """The file of a version that trains it, for jobs that name no command."""
    monitor: str = "scalars"
    """What shows its training: `tensorboard`, or our own viewer."""

    begins: tuple[bytes, ...] = ()
    """How its files begin, whatever they are called."""
    command: str = ""
    """What installs the packages of a plug-in, in place of an extra."""
    package: str = ""
    """The package that brings it; empty: it is part of Mizzen."""

    @property
    def install(self) -> str:
        return self.command or (f"pip install 'mizzen[{self.extra}]'" if self.extra else f"pip install {self.package}")

    def told(self) -> dict[str, Any]:
        """As JSON can carry it."""
        return asdict(self) | {"begins": [begin.hex() for begin in self.begins]}

    @classmethod
    def of(cls, told: Mapping[str, Any], name: str, package: str) -> Self:
        """From what a plug-in of this name and package tells. ValueError says what is wrong with it."""
        unknown = told.keys() - {each.name for each in fields(cls)}
        if unknown:
            raise ValueError(f"a framework has no field {', '.join(sorted(unknown))}")
        if told.get("name") != name or not WORD.fullmatch(name):
            raise ValueError(
                f"it declares {told.get('name')!r}; the name must be that of the entry point, in lower case"
            )
        if not isinstance(told.get("loader"), str) or not told["loader"]:
            raise ValueError("loader must name the module that loads it")
        listed = {name: _texts(name, told.get(name, ())) for name in ("suffixes", "files", "packages", "begins")}
        begins = tuple(bytes.fromhex(begin) for begin in listed.pop("begins"))
        return cls(**{**told, **listed, "begins": begins, "package": package})


def _texts(name: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) and one for one in given):
        raise ValueError(f"{name} must hold texts")
    if name == "suffixes" and not all(one.startswith(".") for one in given):
        raise ValueError("a suffix begins with a dot")
    return tuple(given)


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
"""Those that are part of Mizzen."""


def known() -> Mapping[str, Framework]:
    """All there are, those of plug-ins last. The first call of a process looks for plug-ins, which may take a while."""
    return TABLE | _plugged()[0]


def find(name: str) -> Framework | None:
    return TABLE.get(name) or known().get(name)


def trainer(name: str) -> str:
    """The file of a version that trains it."""
    found = find(name)
    return TRAINER if found is None else found.trainer


def broken() -> tuple[Broken, ...]:
    """Plug-ins that cannot be used."""
    return _plugged()[1]


def unserved(name: str) -> str:
    """Why nothing here serves this framework, in words."""
    for one in broken():
        if one.name == name:
            return f"the plug-in {one}"
    return f"nothing here serves framework '{name}'; served are {', '.join(known())}"


@functools.cache
def _plugged() -> tuple[dict[str, Framework], tuple[Broken, ...]]:
    found: dict[str, Framework] = {}
    faulty = []
    for entry in plugins.entries(plugins.FRAMEWORKS):
        if entry.name in TABLE or entry.name in found:
            owner = found[entry.name].package if entry.name in found else "Mizzen itself"
            faulty.append(plugins.broken(entry, f"{owner} has a framework of that name"))
            continue
        told = plugins.declaration(entry)
        try:
            if not isinstance(told, Broken):
                found[entry.name] = Framework.of(told, entry.name, plugins.package_of(entry))
                continue
        except (TypeError, ValueError) as error:
            told = plugins.broken(entry, str(error))
        faulty.append(told)
    return found, tuple(faulty)
