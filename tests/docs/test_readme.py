"""The commands of README and pages are such that the command line takes them; `tests/conformance` runs them."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from mizzen.cli.app import command
from tests.support.pages import ROOT, WALKS, Step, steps, walk

LINK = re.compile(r"\]\((?!https?://|#)(?P<target>[^)#]+)")


def commands(code: str) -> list[list[str]]:
    """The words of every `./mizzen` in shell code."""
    found = []
    for match in re.finditer(r"\./mizzen (.*)", code):
        lexer = shlex.shlex(match[1], posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if set(word) <= set("();<>|&"):
                break
            words.append(word)
        found.append(words)
    return found


def taken(words: list[str]) -> str:
    """The name of the command that takes these words. Raises what is told to who types them when there is none."""
    name, rest, context = "mizzen", words, None
    found: Any = command()
    while True:
        context = found.make_context(name, list(rest), parent=context)
        if not hasattr(found, "resolve_command"):
            return str(context.command_path)
        name, found, rest = found.resolve_command(context, rest)


@pytest.mark.parametrize(("page", "least"), WALKS)
def test_every_command_of_a_page_is_one_that_is_taken(page: str, least: int) -> None:
    there = walk(page)
    assert len(there) >= least
    for step in there:
        if step.language == "python":
            ast.parse(step.code)
            continue
        assert step.language == "sh"
        for words in commands(step.code):
            try:
                taken(words)
            except Exception as error:
                raise AssertionError(f"{page}:{step.line}: mizzen {shlex.join(words)}: {error}") from error
        for file in re.findall(r"\bexamples/[\w/.-]+", step.code):
            assert (ROOT / file).exists(), f"{page}:{step.line}: {file}"


@pytest.mark.parametrize(
    "line", ["./mizzen deploi x", "./mizzen get models --outputt json", "./mizzen version ad iris"]
)
def test_commands_that_are_not_there_are_noticed(line: str) -> None:
    [words] = commands(line)
    with pytest.raises(Exception, match="No such"):
        taken(words)


def test_commands_are_found_in_shell_code() -> None:
    code = "A=b ./mizzen get x -o yaml | awk '{ print $2 }'\nkill $(./mizzen status)\n./mizzen set 'a b' # or not\n"
    assert commands(code) == [["get", "x", "-o", "yaml"], ["status"], ["set", "a b"]]


def test_blocks_are_found_with_their_output() -> None:
    text = "a\n<!-- tested -->\n```sh\necho x\n```\n<!-- output -->\n```text\nx\n```\n\n```sh\nrm -rf /\n```\n"
    assert steps(text) == [Step("sh", "echo x\n", ("x",), 2)]


@pytest.mark.parametrize(
    "page", sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=str
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in LINK.finditer((ROOT / page).read_text()):
        assert (ROOT / page).parent.joinpath(link["target"]).exists(), f"{page}: {link['target']}"
