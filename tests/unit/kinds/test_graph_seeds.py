from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context, Findings

EXAMPLES = Path(__file__).parents[3] / "examples"
SEEDS = EXAMPLES / "seeds" / "mlgraph"
TWINS = EXAMPLES / "mlgraph"

PLAIN = Context()
CONTAINERS = Context(capabilities=frozenset({"containers"}))

COMBINER = (
    "spec.dag[3].merge.ensemble.implementation.name: no container 'imagenet-combiner' in spec.custom; containers are "
    "imagenet-itransformer, imagenet-otransformer, prediction1, prediction2"
)
MISPLACED = "spec.dag[3].merge.ensemble: unknown field 'implementation'; read as merge.implementation"


def _read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def _examined(manifest: Mapping[str, Any], context: Context) -> Findings:
    return catalog.find("mlgraph").examine(manifest["metadata"]["name"], manifest["spec"], context)


def _lines(findings: Findings) -> tuple[list[str], list[str]]:
    return list(map(str, findings.faults)), list(map(str, findings.warnings))


def _image(index: int, node: str) -> str:
    return (
        f"spec.custom[0].spec.containers[{index}].image: this engine runs no container images; "
        f"node '{node}' stays not ready"
    )


@pytest.mark.parametrize("name", ["experiment", "egreedy", "ensemble", "field-table"])
@pytest.mark.parametrize("context", [PLAIN, CONTAINERS])
def test_a_graph_of_served_models_is_accepted_in_silence(name: str, context: Context) -> None:
    assert _lines(_examined(_read(SEEDS / f"{name}.yaml"), context)) == ([], [])


def test_a_single_container_is_accepted_and_warned_of_where_there_are_no_containers() -> None:
    manifest = _read(SEEDS / "single-model.yaml")
    assert isinstance(manifest["spec"]["dag"], dict), "the seed writes one object"
    assert _lines(_examined(manifest, CONTAINERS)) == ([], [])
    assert _lines(_examined(manifest, PLAIN)) == ([], [_image(0, "classifier")])


def test_the_pipeline_is_refused_for_its_missing_combiner() -> None:
    manifest = _read(SEEDS / "pipeline.yaml")
    assert _lines(_examined(manifest, CONTAINERS)) == ([COMBINER], [MISPLACED])
    faults, warnings = _lines(_examined(manifest, PLAIN))
    names = [container["name"] for container in manifest["spec"]["custom"][0]["spec"]["containers"]]
    assert faults == [COMBINER]
    assert sorted(warnings) == sorted([MISPLACED, *(_image(index, name) for index, name in enumerate(names))])


def test_the_pipeline_with_its_combiner_is_accepted_with_the_warning() -> None:
    manifest = _read(SEEDS / "pipeline.yaml")
    containers = manifest["spec"]["custom"][0]["spec"]["containers"]
    containers.append({"name": "imagenet-combiner", "image": "x"})
    assert _lines(_examined(manifest, CONTAINERS)) == ([], [MISPLACED])
    assert _image(4, "imagenet-combiner") in _lines(_examined(manifest, PLAIN))[1]


@pytest.mark.parametrize("path", sorted(TWINS.glob("*.yaml")), ids=lambda path: path.stem)
def test_corrected_twins_are_accepted_in_silence(path: Path) -> None:
    manifest = _read(path)
    assert manifest["apiVersion"] == "mizzen.dev/v1alpha1"
    assert _lines(_examined(manifest, CONTAINERS)) == ([], [])


def test_every_seed_has_a_twin() -> None:
    assert {path.stem for path in SEEDS.glob("*.yaml")} - {"field-table"} <= {
        path.stem for path in TWINS.glob("*.yaml")
    }
