"""The entry point, which turns errors into messages and exit codes: 0 done, 1 failed, 2 usage, 130 interrupted.

Imports are inside `main`: they take most of the time of a short command, and Ctrl-C may arrive meanwhile.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from mizzen.errors import MizzenError


def main() -> None:
    """Run the command line and exit. Shows a traceback only with MIZZEN_DEBUG=1."""
    try:
        import typer

        from mizzen.cli import completion, output
        from mizzen.cli.app import command

        completion.prepare()
        try:
            code = command()(prog_name="mizzen", standalone_mode=False)
            sys.exit(code or 0)
        except typer.Abort:
            sys.exit(130)
        except typer.TyperException as error:
            sys.exit(_report_usage_error(error))
        except Exception as error:
            explained = _to_mizzen_error(error)
            if explained is not error and os.environ.get("MIZZEN_DEBUG"):
                raise
            output.write_error(explained)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(1)


def _report_usage_error(error: typer.TyperException) -> int:
    """Print a usage error in the same form as all errors, and return the exit code."""
    from mizzen.cli import output

    message, context = error.format_message().replace("Value error, ", ""), getattr(error, "ctx", None)
    if context is None:
        output.note(f"error: {message}")
    elif message == context.get_help():  # a subcommand is missing, and nothing else is wrong
        output.note(message)
    else:
        output.note(f"{context.get_usage()}\nTry '{context.command_path} -h' for help.\n\nerror: {message}")
    return error.exit_code


def _to_mizzen_error(error: Exception) -> MizzenError:
    from mizzen.errors import MizzenError
    from mizzen.supervisor.data_dir import UnusableHome

    if isinstance(error, MizzenError):
        return error
    if isinstance(error, UnusableHome):
        return MizzenError(str(error), hint=error.hint)
    what = f"{type(error).__name__}: {str(error) or 'no details'}"
    if isinstance(error, OSError) and error.filename:
        what = f"{error.filename}: {error.strerror}"
    return MizzenError(what, hint="MIZZEN_DEBUG=1 shows where this happened")


if __name__ == "__main__":
    main()
