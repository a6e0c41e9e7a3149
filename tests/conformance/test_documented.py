"""What pages show with kubectl works: every block of shell with a line that begins with kubectl is run, page by page.

A plane serves `double`, as docs/kubectl.md asks for, and has the model `flowers`, whose file docs/tutorial.md writes.
Lines under `<!-- kubectl output -->` must appear in what the block before them printed, in that order; `…` is anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from mizzen.kinds.catalog import KINDS
from tests.conformance.kubectl import API_VERSION, CHECKOUT, LIMIT, RELEASES, Kubectl
from tests.support import planes

BLOCK = re.compile(
    r"^```(?:sh|console)\n(?P<code>.*?)^```$(?:\n<!-- kubectl output -->\n```text\n(?P<output>.*?)^```$)?", re.M | re.S
)
YAML = re.compile(r"^```ya?ml\n(?P<text>.*?)^```$", re.M | re.S)
FLOWERS = re.compile(r"^cat > flowers\.yaml <<END\n(?P<text>.*?)^END$", re.M | re.S)
SEEDS = "seeds"
"""Examples of others, with apiVersions that kubectl cannot send."""

WRITTEN = ("docs/tutorial.md", "docs/kubectl.md")
"""By hand, and run with every release; the rest is all of one sort."""
REFERENCE = tuple(f"docs/reference/kinds/{kind.singular}.md" for kind in KINDS)
"""In this order there is a model before its version."""


@dataclass(frozen=True, slots=True)
class Shown:
    code: str
    output: tuple[str, ...]


def shown(text: str) -> list[Shown]:
    """The blocks with kubectl in them. In a console the commands stand behind `$`, and all else is output."""
    found = []
    for block in BLOCK.finditer(text):
        code, output = block["code"], (block["output"] or "").splitlines()
        if code.startswith("$ "):
            output = [line for line in code.splitlines() if not line.startswith("$ ")]
            code = "\n".join(line[2:] for line in code.splitlines() if line.startswith("$ "))
        if re.search("^kubectl ", code, re.M):
            found.append(Shown(code, tuple(output)))
    return found


@pytest.fixture(scope="module")
def prepared(plane: planes.TestPlane) -> planes.TestPlane:
    plane.cli("deploy", "examples/functions/double.py:predict", "--name", "double", cwd=CHECKOUT)
    plane.cli("model", "create", "flowers")
    return plane


@pytest.mark.parametrize("page", WRITTEN)
@pytest.mark.parametrize("kubectl", RELEASES)
def test_a_page_shows_what_works(prepared: planes.TestPlane, tmp_path: Path, page: str, kubectl: str) -> None:
    _follow(prepared, tmp_path, page, kubectl)


@pytest.mark.parametrize("page", [*REFERENCE, "docs/reference/cli.md"])
def test_a_page_of_the_reference_shows_what_works(prepared: planes.TestPlane, tmp_path: Path, page: str) -> None:
    _follow(prepared, tmp_path, page, RELEASES[0])


def test_no_page_is_left_out() -> None:
    pages = [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md"), *CHECKOUT.glob("examples/**/*.md")]
    with_kubectl = {path.relative_to(CHECKOUT).as_posix() for path in pages if shown(path.read_text())}
    assert with_kubectl == {*WRITTEN, *REFERENCE, "docs/reference/cli.md"}


def test_every_example_is_accepted(prepared: planes.TestPlane, release: Kubectl) -> None:
    """Every file in examples/, and every manifest in a page."""
    kubectl = release.within(f"examples-{release.release}")
    files = [path for path in sorted((CHECKOUT / "examples").rglob("*.yaml")) if SEEDS not in path.parts]
    pages = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
    blocks = [block["text"] for page in pages for block in YAML.finditer(page.read_text())]
    manifests = [block for block in blocks if f"apiVersion: {API_VERSION}" in block]
    printed = kubectl.home / "printed.yaml"
    printed.write_text("---\n".join(manifests))
    kubectl("apply", "-f", str(CHECKOUT / "examples" / "kinds" / "model.yaml"))  # a version is of a model that is there
    words = [word for file in (*files, printed) for word in ("-f", str(file))]
    told = kubectl("apply", "--dry-run=server", *words).out.splitlines()
    assert len(told) >= len(files) + len(manifests)
    assert all(re.search(r" (created|unchanged) \(server dry run\)$", line) for line in told), told
    assert {kind.singular for kind in KINDS if not kind.internal} == {line.partition(".")[0] for line in told}


def test_blocks_are_found_with_their_output() -> None:
    text = "```sh\nls\n```\n\n```sh\nx\nkubectl get x\n```\n<!-- kubectl output -->\n```text\nNAME\n```\n"
    text += "```console\n$ kubectl get y\nNAME\n```\n"
    assert shown(text) == [Shown("x\nkubectl get x\n", ("NAME",)), Shown("kubectl get y", ("NAME",))]


def _follow(plane: planes.TestPlane, folder: Path, page: str, release: str) -> None:
    """In a folder where the relative paths of pages work; variables of one block are there in the next."""
    for name in ("mizzen", "examples"):
        (folder / name).symlink_to(CHECKOUT / name)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    (folder / ".kube").mkdir()
    flowers = FLOWERS.search((CHECKOUT / "docs" / "tutorial.md").read_text())
    assert flowers
    (folder / "flowers.yaml").write_text(flowers["text"])
    config = plane.cli("kubeconfig", MIZZEN_TOKEN=plane.token()).stdout
    (folder / ".kube" / "config").write_text(config)
    programs = [str(CHECKOUT / ".venvs" / release / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    blocks = shown((CHECKOUT / page).read_text())
    marks = [f"echo '---- {number}'" for number in range(1, len(blocks))]
    code = "".join(f"{block.code}\n{mark}\n" for block, mark in zip(blocks, [*marks, ":"], strict=True))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], cwd=folder, capture_output=True, text=True, timeout=2 * LIMIT,
        stdin=subprocess.DEVNULL, check=False,
        env={"PATH": ":".join(programs), "HOME": str(folder), "MIZZEN_DATA_DIR": str(plane.data_dir)},
    )  # fmt: skip
    assert done.returncode == 0, f"{page}\n{done.stdout}\n{done.stderr}"
    for block, printed in zip(blocks, re.split(r"^---- \d+$", done.stdout, flags=re.M), strict=True):
        at = 0
        for line in block.output:
            found = _looked_for(line).search(printed, at)
            assert found, f"{page}: no '{line}' in what was printed:\n{printed}"
            at = found.end()


def _looked_for(line: str) -> re.Pattern[str]:
    """However wide its columns are: that depends on what else is in the table."""
    return re.compile(r"[ \t]+".join(".*?" if word == "…" else re.escape(word) for word in line.split()))
