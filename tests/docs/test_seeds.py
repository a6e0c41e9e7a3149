"""The seeds' own manifests, exactly as printed: what `mizzen lint` and `mizzen apply --dry-run` say of each.

The outcomes and messages are those of the requirements, section 6, word for word. Each has a corrected twin in
`examples/`, which must be accepted without a fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import planes
from tests.support.cli import command
from tests.support.planes import TestPlane

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ROOT / "examples" / "seeds"
STEPS = "spec.appTemplate.spec"


def no_images(path: str, who: str) -> str:
    return f"{path}.image: this engine runs no container images; {who} stays not ready"


@dataclass(frozen=True, slots=True)
class Case:
    file: str
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    """Warnings beside, on an engine without containers."""
    also_by_a_plane: tuple[str, ...] = ()
    """Warnings beside, from who knows other objects: with a registry that has no versions."""
    text: tuple[str, str] | None = None
    """What to replace in the file first, by what."""

    def __str__(self) -> str:
        return self.file.removesuffix(".yaml") + (" mended" if self.text else "")


PIPELINE = tuple(
    no_images(f"spec.custom[0].spec.containers[{index}]", f"node '{name}'")
    for index, name in enumerate(("imagenet-itransformer", "imagenet-otransformer", "prediction1", "prediction2"))
)
READ_AS_MERGE = "spec.dag[3].merge.ensemble: unknown field 'implementation'; read as merge.implementation"
NO_API_VERSION = "apiVersion: missing, read as core.oam.dev/v1beta1"
COMPONENT_IMAGES = tuple(
    no_images(f"spec.components[{path}.template.spec.containers[0]", f"component '{name}'")
    for path, name in (
        ("0].properties.tfReplicaSpecs.Worker", "my-tfjob"),
        ("1].properties.predictors[0]", "my-tfserving-prod"),
        ("1].properties.predictors[1]", "my-tfserving-prod"),
        ("2].properties.predictors[0]", "my-tfserving-dev"),
    )
)
MENDED_STEPS = """\
        - name: create-prod-cluster
          type: terraform-apply
          properties:
            component: prd-cluster

        - name: create-dev-cluster
          type: terraform-apply
          properties:
            component: prd-cluster
"""

CASES = (
    Case("mlgraph/experiment.yaml"),
    Case("mlgraph/egreedy.yaml"),
    Case("mlgraph/ensemble.yaml"),
    Case("mlgraph/single-model.yaml", images=(no_images("spec.custom[0].spec.containers[0]", "node 'classifier'"),)),
    Case(
        "mlgraph/pipeline.yaml",
        faults=(
            "spec.dag[3].merge.ensemble.implementation.name: no container 'imagenet-combiner' in spec.custom; "
            "containers are imagenet-itransformer, imagenet-otransformer, prediction1, prediction2",
        ),
        warnings=(READ_AS_MERGE,),
        images=PIPELINE,
    ),
    Case(
        "mlgraph/pipeline.yaml",
        text=(
            "          - name: prediction2\n            image: seldonio/openvino-demo-prediction:0.2\n",
            "          - name: prediction2\n            image: seldonio/openvino-demo-prediction:0.2\n"
            "          - name: imagenet-combiner\n            image: example/combiner:0.1\n",
        ),
        warnings=(READ_AS_MERGE,),
        images=(*PIPELINE, no_images("spec.custom[0].spec.containers[4]", "node 'imagenet-combiner'")),
    ),
    Case(
        "mlgraph/field-table.yaml",
        warnings=(
            "apiVersion: 'serving.mlpsepc.org/v1alpha1' is read as mizzen.dev/v1alpha1; "
            "did you mean 'serving.mlspec.org/v1alpha2'?",
        ),
    ),
    Case("model-operator/facialexpression.yaml"),
    Case(
        "model-operator/trainingmodel.yaml",
        also_by_a_plane=("spec.version: model 'facialexpression' has no version 4 yet",),
    ),
    Case(
        "ml-platform/initializer.yaml",
        faults=(
            "metadata.name: required",
            f"{STEPS}.components[2].properties: unknown field 'create-nmespace'; did you mean 'create-namespace'?",
            f"{STEPS}.workflows[0].properties.component: no component 'prod-cluster'; did you mean 'prd-cluster'?",
            f"{STEPS}.workflows[1].properties.component: no component 'prod-cluster'; did you mean 'prd-cluster'?",
            f"{STEPS}.workflows[3]: unknown field 'prooperties'; did you mean 'properties'?",
        ),
        warnings=("component 'dev-cluster' is applied by no step",),
    ),
    Case("ml-platform/application.yaml", faults=("metadata.name: required",), warnings=(NO_API_VERSION,)),
    Case(
        "ml-platform/application.yaml",
        text=("kind: Application\n", "kind: Application\nmetadata:\n  name: mine\n"),
        warnings=(
            NO_API_VERSION,
            "spec.workflow.steps[2].properties.modelVersion.modelName: 'mymodel-v2' is read as model 'mymodel', "
            "version 2",
            "spec.workflow.steps[2].properties.modelVersion.imageRepo: 'myrepo/mymodel' differs from 'myhub/mymodel' "
            "of component 'my-tfjob'; the step's value is used",
        ),
        images=COMPONENT_IMAGES,
        also_by_a_plane=(
            "component 'my-tfserving-prod' needs mymodel version 1, which does not exist and which no step makes",
        ),
    ),
)

MENDED_INITIALIZER = Case(
    "ml-platform/initializer.yaml",
    warnings=(
        "steps 'create-prod-cluster' and 'create-dev-cluster' both apply 'prd-cluster'",
        "component 'dev-cluster' is applied by no step; did you mean it in 'create-dev-cluster'?",
    ),
)


def manifest(case: Case, folder: Path) -> Path:
    text = (SEEDS / case.file).read_text()
    if case is MENDED_INITIALIZER:
        text = text.replace("kind: Initializer\n", "kind: Initializer\nmetadata:\n  name: platform\n")
        text = text.replace("create-nmespace", "create-namespace").replace("prooperties", "properties")
        text = text.replace("component: prod-cluster", "component: prd-cluster")
        assert MENDED_STEPS in text
    if case.text is not None:
        assert case.text[0] in text
        text = text.replace(*case.text)
    file = folder / "manifest.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("case", [*CASES, MENDED_INITIALIZER], ids=str)
@pytest.mark.parametrize("home", ["embedded", "cluster"])
def test_lint(tmp_path: Path, case: Case, home: str) -> None:
    done = command.mizzen("lint", "-f", str(manifest(case, tmp_path)), "--for", home, "-o", "json", cwd=tmp_path)
    [said] = json.loads(done.stdout)["items"]
    assert sorted(texts(said["faults"])) == sorted(case.faults)
    assert sorted(texts(said["warnings"])) == sorted(case.warnings + (case.images if home == "embedded" else ()))
    assert done.returncode == (1 if case.faults else 0)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestPlane]:
    with planes.running_plane(tmp_path_factory.mktemp("seeds") / ".mizzen") as running:
        yield running


@pytest.mark.timeout(600)
def test_apply_dry_run(plane: TestPlane, tmp_path: Path) -> None:
    for case in (*CASES, MENDED_INITIALIZER):
        done = plane.cli("apply", "-f", str(manifest(case, tmp_path)), "--dry-run", check=False)
        warnings = re.findall(r"^warning: \S+:\d+: \w+/\S+: (.*)$", done.stderr, re.M)
        if case.faults:
            assert done.returncode == 1, case
            assert all(f"{fault}\n" in done.stderr for fault in case.faults), done.stderr
            # Refused before anything is sent, so no engine has spoken.
            assert sorted(warnings) == sorted(case.warnings), case
        else:
            assert done.returncode == 0, done.stderr
            assert sorted(warnings) == sorted(case.warnings + case.images + case.also_by_a_plane), case
            assert done.stdout.endswith("created (dry run)\n")
    for kind in ("mlgraphs", "inferencemodels", "trainingjobs", "applications", "initializers", "revisions"):
        there = json.loads(plane.cli("get", kind, "-o", "json").stdout)["items"]
        # The plane itself made the namespace, and the Node that its machine is.
        assert [one for one in there if one["spec"].get("kind") not in ("Namespace", "Node")] == []


@pytest.mark.timeout(600)
def test_twins_and_examples_are_accepted(plane: TestPlane) -> None:
    """All in one set, tried first; then for good, twice, because the second time nothing may change."""
    files = [file for file in sorted((ROOT / "examples").rglob("*.yaml")) if not file.is_relative_to(SEEDS)]
    assert {file.parent.name for file in files} >= {"mlgraph", "ml-platform", "model-operator", "kinds"}
    names = [word for file in files for word in ("-f", str(file))]
    tried = plane.cli("apply", *names, "--dry-run").stdout.splitlines()
    assert len(tried) >= len(files)
    first = plane.cli("apply", *names).stdout.splitlines()
    assert [f"{line} (dry run)" for line in first] == tried
    assert all(line.endswith(" created") for line in first), first
    again = plane.cli("apply", *names).stdout.splitlines()
    assert all(line.endswith(" unchanged") for line in again), again


def test_every_printed_block_is_an_example() -> None:
    """The seeds lie beside the project, so this holds where they do: no block of YAML was left out or changed."""
    seeds = ROOT.parent / "shared" / "seeds"
    if not seeds.is_dir():
        pytest.skip("the seeds are not here")
    printed = [
        block.strip()
        for file in sorted(seeds.glob("*.md"))
        for block in re.findall(r"^```ya?ml\n(.*?)^```", file.read_text(), re.M | re.S | re.I)
    ]
    kept = [file.read_text().strip() for file in SEEDS.rglob("*.yaml")]
    assert len(printed) >= 8
    assert [block for block in printed if block not in kept] == []


def texts(findings: list[dict[str, str]]) -> list[str]:
    return [f"{one['path']}: {one['message']}" if one["path"] else one["message"] for one in findings]
