"""The table of frameworks: the files that identify each, what trains, serves and monitors it, and what to install.

Standard library only: the plane reads it, and so does a runtime in the user's environment. Other packages add
frameworks by entry points (`mizzen/plugins.py`); `known` returns all of them.
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
"""The valid names of frameworks."""


TRAINER: Final = "train.py"


@dataclass(frozen=True, slots=True)
class Framework:
    name: str
    suffixes: tuple[str, ...] = ()
    """The suffixes of its files. If several frameworks share a suffix, the content decides."""
    files: tuple[str, ...] = ()
    """File names that identify a folder as a model of this framework."""
    loader: str | None = None
    """The runtime module that serves it; None if it is not served yet."""
    packages: tuple[str, ...] = ()
    """Packages that the loader imports and that a plain installation lacks."""
    extra: str | None = None
    """The extra of this package that installs them."""
    trainer: str = TRAINER
    """The file of a version that trains it, for jobs without a command."""
    monitor: str = "scalars"
    """The tool that monitors its training: `tensorboard`, or the built-in viewer."""

    begins: tuple[bytes, ...] = ()
    """Magic bytes at the start of its files, which may have any name."""
    command: str = ""
    """The command that installs the packages of a plug-in, in place of an extra."""
    package: str = ""
    """The package that provides it; empty if it is part of Mizzen."""

    @property
    def install(self) -> str:
        return self.command or (f"pip install 'mizzen[{self.extra}]'" if self.extra else f"pip install {self.package}")

    def to_json(self) -> dict[str, Any]:
        """The declaration as JSON data."""
        return asdict(self) | {"begins": [begin.hex() for begin in self.begins]}

    @classmethod
    def of(cls, declared: Mapping[str, Any], name: str, package: str) -> Self:
        """From the declaration of a plug-in with this name and package. Raises ValueError if it is invalid."""
        unknown = declared.keys() - {each.name for each in fields(cls)}
        if unknown:
            raise ValueError(f"a framework has no field {', '.join(sorted(unknown))}")
        if declared.get("name") != name or not WORD.fullmatch(name):
            raise ValueError(
                f"it declares the name {declared.get('name')!r}; expected that of the entry point, in lower case"
            )
        if not isinstance(declared.get("loader"), str) or not declared["loader"]:
            raise ValueError("loader must name the module that loads it")
        listed = {name: _texts(name, declared.get(name, ())) for name in ("suffixes", "files", "packages", "begins")}
        begins = tuple(bytes.fromhex(begin) for begin in listed.pop("begins"))
        return cls(**{**declared, **listed, "begins": begins, "package": package})


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) and one for one in value):
        raise ValueError(f"{name} must be a list of texts")
    if name == "suffixes" and not all(one.startswith(".") for one in value):
        raise ValueError("a suffix must begin with a dot")
    return tuple(value)


PICKLES: Final = (".joblib", ".pkl", ".pickle")
NO_TORCH_PROGRAM: Final = (
    "PyTorch weights or a pickled module, without the program. Save it with "
    "torch.jit.script(model).save('model.pt') or torch.export.save(torch.export.export(model, example), 'model.pt2'). "
    "Or deploy a folder with the file and a Python class that creates the module and loads its weights with "
    "torch.load(path, weights_only=True)"
)
"""The message for a file without a callable program."""
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
"""The built-in frameworks."""


def known() -> Mapping[str, Framework]:
    """All frameworks, those of plug-ins last. The first call of a process loads plug-ins, which may take a while."""
    return TABLE | _load_plugins()[0]


def find(name: str) -> Framework | None:
    return TABLE.get(name) or known().get(name)


def trainer(name: str) -> str:
    """The file of a version that trains it."""
    found = find(name)
    return TRAINER if found is None else found.trainer


def broken() -> tuple[Broken, ...]:
    """Plug-ins that cannot be used."""
    return _load_plugins()[1]


def explain_unserved(name: str) -> str:
    """A message that says why this framework is not served here."""
    for one in broken():
        if one.name == name:
            return f"the plug-in {one}"
    return f"framework '{name}' is not supported here; supported are {', '.join(known())}"


@functools.cache
def _load_plugins() -> tuple[dict[str, Framework], tuple[Broken, ...]]:
    found: dict[str, Framework] = {}
    faulty = []
    for entry in plugins.entries(plugins.FRAMEWORKS):
        if entry.name in TABLE or entry.name in found:
            owner = found[entry.name].package if entry.name in found else "Mizzen itself"
            faulty.append(plugins.broken(entry, f"{owner} already has a framework of that name"))
            continue
        declared = plugins.declaration(entry)
        if isinstance(declared, Broken):
            faulty.append(declared)
            continue
        try:
            found[entry.name] = Framework.of(declared, entry.name, plugins.package_of(entry))
        except (TypeError, ValueError) as error:
            faulty.append(plugins.broken(entry, str(error)))
    return found, tuple(faulty)
