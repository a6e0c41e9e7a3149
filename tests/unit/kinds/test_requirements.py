"""Requirements as people write them, alone and in files."""

from __future__ import annotations

import pytest

from mizzen.kinds.text import requirements

WHOLE = """\
# made by a tool
numpy==1.26.4 \\
    --hash=sha256:aa11 \\
    --hash=sha256:bb22
scikit-learn[alldeps] ~= 1.5   # the model's

torch @ https://host/torch.whl#sha256=1
a>1; python_version<'3.12'
"""


def test_a_file_as_pip_takes_it() -> None:
    assert requirements.read(WHOLE) == (
        "numpy==1.26.4 --hash=sha256:aa11 --hash=sha256:bb22",
        "scikit-learn[alldeps] ~= 1.5",
        "torch @ https://host/torch.whl#sha256=1",
        "a>1; python_version<'3.12'",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("numpy\n-r more.txt", "line 2: '-r more.txt' is a pip option"),
        ("--index-url https://host/simple", "line 1: '--index-url https://host/simple' is a pip option"),
        ("-e .", "line 1: '-e .' is a pip option"),
        ("\n\n./folder", "line 3: './folder' is not a valid requirement"),
        ("https://host/a.whl", "line 1: 'https://host/a.whl' is not a valid requirement"),
        ("numpy --index-url x", "line 1: 'numpy --index-url x' contains an option"),
        ("a @ https://me:secret@host/a.whl", "line 1: contains a password"),
    ],
)
def test_what_leads_elsewhere_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="line ") as told:
        requirements.read(text)
    assert str(told.value).startswith(why)
    assert "secret" not in str(told.value)


def test_the_same_set_is_the_same_however_it_is_written() -> None:
    one = requirements.normal(["Scikit_Learn >= 1.5, <2", "numpy", "b;python_version < '4'"])
    other = requirements.normal(["numpy", "b; python_version < '4'", "scikit-learn>=1.5,<2", "numpy"])
    assert one == other == ("b;python_version < '4'", "numpy", "scikit-learn>=1.5,<2")
    assert one != requirements.normal(["scikit-learn>=1.6,<2", "numpy", "b;python_version < '4'"])


def test_hashes_belong_to_a_requirement() -> None:
    (one,) = requirements.normal(["numpy == 1 --hash=sha256:bb --hash=sha256:aa"])
    assert one == "numpy==1 --hash=sha256:aa --hash=sha256:bb"


@pytest.mark.parametrize("text", ["3.10", "3.12", "3.12.4", "3.100"])
def test_pythons_that_can_be_asked_for(text: str) -> None:
    assert requirements.python_version(text) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("3.9", "3.10 or newer, not 3.9"),
        ("2.7", "is not a valid Python"),
        ("3", "is no"),
        (">=3.10", "is no"),
        ("", "no"),
    ],
)
def test_and_those_that_cannot(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        requirements.python_version(text)
