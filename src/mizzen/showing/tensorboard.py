"""`python -m mizzen.showing.tensorboard …`: TensorBoard with its own flags, behind the gate.

TensorBoard's data server would answer anyone on a separate port, so TensorBoard reads the files itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mizzen.showing.gate import FILE, Gate, read_key

EXIT_PERMANENT = 78
READING = {"load_fast": "false", "reload_multifile": True}
"""Read in this process, and, as the data server does, all files of a run: each attempt of a job starts another."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    folder = environ.get("MIZZEN_RUN_DIR")
    if not folder:
        return _give_up("MIZZEN_RUN_DIR is not set: start this tool with 'mizzen monitor start'", environ)
    file = Path(folder) / FILE
    if read_key(file) is None:
        return _give_up(
            f"{file} has no key that only this account can read: 'mizzen down' and 'mizzen up' create one", environ
        )
    return _serve(arguments, file)


def _serve(arguments: Sequence[str], key_file: Path) -> int:
    from tensorboard import default, main_lib, program
    from tensorboard.plugins.base_plugin import FlagsError

    def server(app: Any, flags: Any) -> Any:
        return program.create_port_scanning_werkzeug_server(Gate(app, key_file), flags)

    main_lib.global_init()
    board = program.TensorBoard(plugins=default.get_plugins(), server_class=server)
    try:
        board.configure(("tensorboard", *arguments), **READING)
    except FlagsError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    return int(board.main())


def _give_up(message: str, environ: Mapping[str, str]) -> int:
    sys.stderr.write(f"{message}\n")
    last_words = environ.get("MIZZEN_TERMINATION_LOG")
    if last_words:
        with suppress(OSError):
            Path(last_words).write_text(message)
    return EXIT_PERMANENT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
