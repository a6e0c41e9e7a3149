"""Each own lint finds what it is for, and nothing else."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from tools.lint import __main__ as lint
from tools.lint import imports, layout, names, words
from tools.lint.files import File

GOOD = '"""What this promises."""\n\nfrom __future__ import annotations\n\nANSWER = 42\n'
ELSEWHERE = "/srv/checkout"


def messages(path: str, text: str = GOOD) -> list[str]:
    return [finding.message for finding in lint.check([File(PurePosixPath(path), text)], ELSEWHERE)]


def module(path: str, text: str = GOOD) -> File:
    return File(PurePosixPath("src/mizzen", path), text)


@pytest.mark.parametrize(
    "path",
    [
        "src/mizzen/gateway/queueing/queue.py",
        "tests/unit/gateway/test_queue.py",
        "tests/conftest.py",
        "docs/basement.md",
    ],
)
def test_a_good_file_has_no_findings(path: str) -> None:
    assert messages(path) == []


@pytest.mark.parametrize(("lines", "warned", "refused"), [(400, 0, 0), (401, 1, 0), (600, 1, 0), (601, 0, 1)])
def test_long_files_are_warned_about_and_then_refused(lines: int, warned: int, refused: int) -> None:
    text = GOOD + "\n" * (lines - GOOD.count("\n"))
    findings = list(layout.size(File(PurePosixPath("src/mizzen/long.py"), text)))
    assert [finding.warning for finding in findings] == [True] * warned + [False] * refused


@pytest.mark.parametrize("path", ["src/mizzen/utils.py", "src/mizzen/common/frames.py", "bench/helpers.py"])
def test_names_that_say_nothing_are_refused(path: str) -> None:
    (message,) = messages(path)
    assert "says nothing" in message


def test_a_package_of_ours_opens_with_a_docstring() -> None:
    assert len(messages("src/mizzen/gateway/__init__.py", "")) == 1
    assert messages("src/mizzen/gateway/__init__.py", '"""Charter."""\n') == []


def test_modules_with_code_postpone_annotations() -> None:
    (message,) = messages("src/mizzen/errors.py", '"""Doc."""\n\nimport os\n')
    assert "__future__" in message
    assert messages("src/mizzen/empty.py", "") == []


@pytest.mark.parametrize("path", ["tests/test_all.py", "tests/quick/test_all.py"])
def test_a_test_outside_every_tier_is_found(path: str) -> None:
    (message,) = messages(path)
    assert "tier" in message


@pytest.mark.parametrize("line", ["--index-url x", "--find-links x", "a @ https://h/a.whl", "--extra-index-url=x"])
def test_a_lock_names_no_registry(line: str) -> None:
    (message,) = messages("requirements/dev.txt", f"a==1\n{line}\n")
    assert "lock" in message
    assert messages("docs/index.md", f"{line}\n") == []


@pytest.mark.parametrize("path", ["/root" + "/x", "/home" + "/ann/x", "see /home" + "/ann", ELSEWHERE + "/src"])
def test_paths_of_one_machine_are_found(path: str) -> None:
    findings = list(layout.machine_paths(File(PurePosixPath("docs/a.md"), f"fine\n{path}\n"), ELSEWHERE))
    assert [finding.line for finding in findings] == [2]


@pytest.mark.parametrize("text", ["~/x", "https://x.org/home" + "/ann", "`/home/<you>`", "/rootless"])
def test_other_paths_are_let_be(text: str) -> None:
    assert messages("docs/a.md", text) == []


def test_a_folder_holds_at_most_thirteen_modules() -> None:
    files = [module(f"gateway/part_{number}.py") for number in range(13)]
    assert list(layout.crowded_folders([*files, module("gateway/__init__.py")])) == []
    (finding,) = layout.crowded_folders([*files, module("gateway/__main__.py")])
    assert str(finding).startswith("src/mizzen/gateway:1: 14 modules")


@pytest.mark.parametrize(
    "back",
    [
        "from mizzen import a",
        "from mizzen.a import b",
        "import mizzen.a",
        "if TYPE_CHECKING:\n    from mizzen.a import A",
        "def f():\n    from mizzen import a",
    ],
)
def test_an_import_cycle_is_found_however_it_is_hidden(back: str) -> None:
    files = [module("__init__.py", ""), module("a.py", "from mizzen.b import B"), module("b.py", back)]
    (finding,) = imports.cycles(files)
    assert "mizzen.a" in finding.message
    assert "mizzen.b" in finding.message
    assert list(imports.cycles(files[:2])) == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("gateway/naps.py", ""),
        ("gateway/queue.py", "class Wish:\n    pass"),
        ("gateway/queue.py", "class _Wish:\n    pass"),
        ("gateway/queue.py", "def told():\n    pass"),
        ("gateway/queue.py", "class Queue:\n    async def _listed(self):\n        pass"),
    ],
)
def test_names_that_no_reader_could_guess_are_refused(path: str, code: str) -> None:
    assert len(messages(f"src/mizzen/{path}", GOOD + code)) == 1
    assert messages(f"tests/support/{path}", GOOD + code) == []


@pytest.mark.parametrize(
    "code", ["def tell():\n    pass", "def feed_all():\n    pass", "@property\ndef told():\n    pass"]
)
def test_verbs_and_properties_are_allowed(code: str) -> None:
    assert list(names.function_names(module("a.py", code))) == []


def test_one_public_class_name_has_one_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = "class Sample:\n    pass\n"
    files = [module("a.py", sample), module("b.py", f"import os\n{sample}"), module("c.py", sample)]
    assert [str(finding).split(" is")[0] for finding in names.shared_class_names(files)] == [
        "src/mizzen/b.py:2: 'Sample'",
        "src/mizzen/c.py:1: 'Sample'",
    ]
    monkeypatch.setattr(names, "SHARED_CLASSES", {"Sample": "a reason"})
    assert list(names.shared_class_names(files)) == []


@pytest.mark.parametrize("code", ["class _Sample:\n    pass", "def f():\n    pass", "Sample = int"])
def test_only_public_classes_of_the_package_must_differ(code: str) -> None:
    assert list(names.shared_class_names([module("a.py", code), module("b.py", code)])) == []
    public = "class Sample:\n    pass"
    tests = [File(PurePosixPath("tests", name), public) for name in ("a.py", "b.py")]
    assert list(names.shared_class_names([*tests, module("a.py", public)])) == []


@pytest.mark.parametrize(("lines", "refused"), [(60, False), (61, True)])
@pytest.mark.parametrize("start", ["def f(", "async def f("])
def test_a_function_fits_on_a_screen(lines: int, refused: bool, start: str) -> None:
    body = "    pass\n" * (lines - 4)
    code = f"class A:\n  @staticmethod\n  {start}\n    a: int,\n  ):\n{body}    return\n"
    assert [finding.line for finding in layout.function_size(module("a.py", code))] == [3] * refused
    assert list(layout.function_size(File(PurePosixPath("tests/unit/a.py"), code))) == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("The caller is told.", [1]), ("Nobody,\nof late, is.", [1, 2]), ("A line.\n'x' is no number.", [2]),
        ("Of\nlate it is\n  no number.", [1, 2]), ("It is no longer there.", []), ("There is no such model.", []),
        ("There\n  are no such models.", []), ("There were no more.", []), ("This is\nno more.", []),
    ],
)  # fmt: skip
def test_words_that_readers_stumble_over_are_refused(text: str, lines: list[int]) -> None:
    for path in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/reference/cli.md", "docs/decisions/0001.md"):
        assert sorted(finding.line for finding in words.plain_pages(File(PurePosixPath(path), text))) == lines
    assert messages("examples/README.md", text) == []


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("raise ValueError('x is no number')", 1), ("a = f'{x} is no {y}'", 1), ("a = f'{x} told {y}'", 1),
        ("a = ('The caller '\n     'is told')", 1), ("a = f(b={'c': 'nobody calls'})", 1),
        ("a = f'{f(\"is no a\")}'", 1), ("a = 'told'", 0), ("a = {'whoever': 1}", 0), ("a = f'there is no {x}'", 0),
        ("told = 1  # is told", 0), ("'The caller is told.'", 0), ("def f():\n    '''Who is told.'''", 0),
        ("a = 1\n'''What is told.'''", 0),
    ],
)  # fmt: skip
def test_texts_of_the_package_use_plain_words(code: str, count: int) -> None:
    assert len(list(words.plain_texts(module("a.py", code)))) == count
    assert list(words.plain_texts(File(PurePosixPath("tests/unit/a.py"), code))) == []
