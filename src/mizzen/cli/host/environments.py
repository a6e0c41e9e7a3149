"""environments: what the data dir keeps of packages that versions require."""

from __future__ import annotations

from datetime import UTC, datetime

from mizzen.cli import output
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Output


def environments(data_dir: DataDir = None, form: Output = Format.TABLE) -> None:
    """List the environments that were built for versions that require packages, on the plane's machine.

    \b
    Example:
      mizzen environments
    """
    from mizzen.assemble.environments import kept
    from mizzen.sdk.connection import locate

    items = kept(locate.data_dir_of(data_dir))
    if form is not Format.TABLE:
        output.data({"items": items}, form)
    elif not items:
        output.note("no environments")
    else:
        output.table(
            ("ENVIRONMENT", "PYTHON", "SIZE", "USED", "REQUIRES"),
            (
                (
                    item["key"],
                    item["python"],
                    output.size(item["size"]),
                    f"{output.age(datetime.fromtimestamp(item['used'], UTC).isoformat())} ago",
                    " ".join(item["requirements"]),
                )
                for item in items
            ),
        )
