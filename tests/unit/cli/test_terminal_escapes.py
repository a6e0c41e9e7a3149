"""What models and servers wrote is only text on a terminal: it moves no cursor, sets no title and types nothing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import select
import tty
from collections.abc import Callable

import pytest

from mizzen import errors
from mizzen.cli import output

EVIL = "a\x1b]0;title\x07b\x9b2Jc\x08d\re\x7f"
SHOWN = r"a\u001b]0;title\u0007b\u009b2Jc\u0008d\u000de\u007f"


def printed(work: Callable[[], None]) -> str:
    """What a real terminal gets of it."""
    terminal, inner = pty.openpty()
    try:
        tty.setraw(inner)  # else \n would come as \r\n
        with open(inner, "w", encoding="utf-8") as stream:
            with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
                work()
            stream.flush()
            got = b""
            while select.select([terminal], [], [], 0)[0]:
                got += os.read(terminal, 65536)
        return got.decode()
    finally:
        os.close(terminal)


@pytest.mark.parametrize(
    "work",
    [
        lambda: output.write_error(errors.ModelFailed(EVIL)),
        lambda: output.note(EVIL),
        lambda: output.write(f"{EVIL}: [1]"),
        lambda: output.write_table(("NAME",), [(EVIL,)]),
        lambda: output.write(EVIL, colors=True),
    ],
)
def test_controls_are_shown_escaped(work: Callable[[], None]) -> None:
    text = printed(work)
    assert SHOWN in text
    assert not any(sign < " " and sign not in "\n\t" for sign in text)


def test_lines_stay_lines_and_logs_keep_their_colours() -> None:
    assert printed(lambda: output.note("a\n\tb\r\nc")) == "a\n\tb\r\nc\n"
    line = "\x1b[1;31mred\x1b[0m \x1b[2J \x1b[38:5:1mx"
    assert printed(lambda: output.write(line, colors=True)) == "\x1b[1;31mred\x1b[0m \\u001b[2J \x1b[38:5:1mx\n"
    assert printed(lambda: output.write(line)).startswith(r"\u001b[1;31mred")


def test_json_on_a_terminal_stays_json() -> None:
    assert json.loads(printed(lambda: output.write_data({"name": EVIL}, output.Format.JSON))) == {"name": EVIL}


def test_a_file_gets_the_text_as_it_is() -> None:
    file = io.StringIO()
    with contextlib.redirect_stdout(file):
        output.write("a\x07b")
    assert file.getvalue() == "a\x07b\n"
