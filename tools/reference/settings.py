"""docs/reference/settings.md, from the fields of `Settings`."""

from __future__ import annotations

from dataclasses import fields

from mizzen.settings import Settings
from tools.reference import markdown

INTRO = """\
Each setting is taken from the first of these that has it: the flag of `mizzen up`, where there is one
(`--inference-port`); the environment variable; `settings.toml` in the data dir (`inference_port = 9000`); the default.
An unknown name in the file or a value of the wrong type stops the start, with every fault named."""


def page() -> str:
    rows = [
        (
            markdown.code(setting.name),
            markdown.code(f"MIZZEN_{setting.name.upper()}"),
            type(setting.default).__name__,
            markdown.code(str(setting.default)),
            setting.metadata["help"],
        )
        for setting in fields(Settings)
    ]
    return markdown.page("Settings", INTRO, markdown.table(("Name", "Variable", "Type", "Default", "Meaning"), rows))
