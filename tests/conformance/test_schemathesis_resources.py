"""schemathesis asks all that clients of Kubernetes use, by /openapi.json and by the documents for kubectl.

Bodies of kinds have rules that no schema says, and parts that only the server writes, which may hold anything when they
are sent back. So whether data is taken or refused as declared is asked of what has no such body; whether all answers
are declared ones, of everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.kubectl import CHECKOUT
from tests.conformance.schemathesis import CHECKS, Run, patient
from tests.support import planes

DOCUMENTS = "/openapi/v3"
KINDS = f"{DOCUMENTS}/apis/mizzen.dev/v1alpha1"
OTHERS = ("api/v1", "apis/apiextensions.k8s.io/v1", "apis/authentication.k8s.io/v1", "apis/authorization.k8s.io/v1")

ALL = "^/(apis?|openapi)(/|$)"
SOME = r"^/apis?(/(?!mizzen\.dev/v1alpha1/)|$)|/models(/|$)"
"""All but the documents, and of the kinds only one: the same code serves them all, and each has a thousand cases."""

SENDING = ("--exclude-method", "POST", "--exclude-method", "PUT", "--exclude-method", "PATCH")
TAKEN = ("negative_data_rejection", "positive_data_acceptance")
ANSWERS = tuple(name for name in CHECKS if name not in TAKEN)

FILES = ("kinds", "mlgraph", "ml-platform", "model-operator")
NAMES = (
    "iris", "iris.3", "camera-1", "iris-callers", "facialexpression", "facialexpression-training", "cascade", "mymodel",
    "ml-platform", "default", "models.mizzen.dev",
)  # fmt: skip
FIELDS = ("", "metadata.name=iris", "metadata.name!=iris,metadata.namespace=default")
"""Each kind has others, too."""

CONFIG = f"""
[dictionaries]
names.values = {json.dumps(NAMES)}
namespaces.values = ["default"]
fields.values = {json.dumps(FIELDS)}

[parameters]
# A watch, and a log that is followed, is as many objects or lines as there will be: no schema tells what that is, and
# it would be waited for.
"query.watch" = false
"query.follow" = false
# Else nothing that is asked for would be there.
"path.name" = {{ dictionary = "names", probability = 0.5 }}
"path.namespace" = {{ dictionary = "namespaces", probability = 0.8 }}
"query.fieldSelector" = {{ dictionary = "fields" }}
"""


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    """For nobody else: everything in it may go. It begins with objects of all kinds that people write."""
    with planes.running_plane(tmp_path_factory.mktemp("plane") / "data") as running:
        running.cli("apply", *(word for name in FILES for word in ("-f", str(CHECKOUT / "examples" / name))))
        yield running


@patient
def test_what_is_read_is_as_declared(stocked: planes.TestPlane, tmp_path: Path) -> None:
    run = Run(examples=2, include=SOME, phases=("examples", "coverage", "fuzzing"), config=CONFIG, flags=SENDING)
    run.against(stocked.control_url, stocked.token(), tmp_path)


@patient
def test_every_answer_is_a_declared_one(stocked: planes.TestPlane, tmp_path: Path) -> None:
    run = Run(examples=1, include=ALL, checks=ANSWERS, phases=("examples", "fuzzing"), config=CONFIG)
    run.against(stocked.control_url, stocked.token(), tmp_path)


@patient
def test_every_answer_is_one_that_kubectl_reads_of(stocked: planes.TestPlane, tmp_path: Path) -> None:
    run = Run(examples=1, checks=ANSWERS, phases=("examples", "fuzzing"), config=CONFIG)
    run.against(stocked.control_url, stocked.token(), tmp_path, KINDS)


@patient
@pytest.mark.parametrize("name", OTHERS)
def test_so_it_is_of_other_groups(stocked: planes.TestPlane, tmp_path: Path, name: str) -> None:
    """kubectl is told that Events can be patched, so that it asks and says why not. It is no method that they have."""
    checks = tuple(name for name in ANSWERS if name != "allow_header_conformance")
    flags = ("--exclude-operation-id", "patchEvent")
    run = Run(examples=2, checks=checks, phases=("examples", "fuzzing"), config=CONFIG, flags=flags)
    run.against(stocked.control_url, stocked.token(), tmp_path, f"{DOCUMENTS}/{name}")
