"""Three models of iris that are not of one mind, and graphs over them and over a model that does nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MEMBERS = ("kfa", "kfb", "kfc")
ROW = [6.7, 3.0, 5.0, 1.7]
LABELS = (2, 2, 1)
"""What each of them says of that row."""
MEAN = sum(LABELS) / len(LABELS)
NOOP = "noop"

Nodes = list[dict[str, Any]]


def train(folder: Path) -> dict[str, Path]:
    """Write the file of each into `folder`, made if need be: trained on another part, and regularised otherwise."""
    import joblib
    import numpy as np
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    folder.mkdir(exist_ok=True)
    flowers, kinds = load_iris(return_X_y=True)
    files = {}
    for name, seed, strength in zip(MEMBERS, (1, 2, 3), (1.0, 0.05, 20.0), strict=True):
        part = np.random.default_rng(seed).permutation(len(flowers))[:100]
        files[name] = folder / f"{name}.joblib"
        joblib.dump(LogisticRegression(C=strength, max_iter=5000).fit(flowers[part], kinds[part]), files[name])
    return files


def graph(name: str, nodes: Nodes) -> dict[str, Any]:
    """As a manifest."""
    return {"apiVersion": "mizzen.dev/v1alpha1", "kind": "MLGraph", "metadata": {"name": name}, "spec": {"dag": nodes}}


def ensemble() -> Nodes:
    """The mean of what all three answer."""
    members = [_calls(member, member) for member in MEMBERS]
    return [*members, {"name": "mean", "dependencies": list(MEMBERS), "merge": {"ensemble": {}}}]


def split() -> Nodes:
    """One of the three, each with the same chance."""
    return _choice({"split": {}})


def egreedy() -> Nodes:
    """One of the three, by a bandit, which keeps records for feedback."""
    return _choice({"mab": {"egreedy": 0.1}})


def chain(length: int) -> Nodes:
    """So many nodes that each call what does nothing, one behind the other."""
    return [_calls(f"n{place}", NOOP, *([f"n{place - 1}"] if place else [])) for place in range(length)]


def passing(length: int) -> Nodes:
    """One call of what does nothing, and behind it so many nodes that pass on what they get."""
    behind = [
        {"name": f"n{place}", "dependencies": [f"n{place - 1}"], "merge": {"ensemble": {}}}
        for place in range(1, length + 1)
    ]
    return [_calls("n0", NOOP), *behind]


def wide(members: int) -> Nodes:
    """The mean of so many calls of what does nothing."""
    names = [f"n{place}" for place in range(members)]
    return [*(_calls(name, NOOP) for name in names), {"name": "mean", "dependencies": names, "merge": {"ensemble": {}}}]


def _choice(route: dict[str, Any]) -> Nodes:
    return [{"name": "choice", "route": route}, *(_calls(member, member, "choice") for member in MEMBERS)]


def _calls(node: str, served: str, *dependencies: str) -> dict[str, Any]:
    on = {"dependencies": list(dependencies)} if dependencies else {}
    return {"name": node, **on, "implementation": {"kfservice": served}}
