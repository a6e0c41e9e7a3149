"""`mizzen environments`: the environments that the data dir keeps for versions that require packages."""

from __future__ import annotations

from datetime import UTC, datetime

from mizzen.cli import output
from mizzen.cli.session import PlaneSession


def environments(session: PlaneSession) -> None:
    """List the Python environments that the plane has built for versions that require packages.

    \b
    Example:
      mizzen environments
    """
    from mizzen.assemble.environments import list_environments
    from mizzen.sdk.connection import locate

    items = list_environments(locate.data_dir_of(session.data_dir))
    rows = (
        (
            item["key"],
            item["python"],
            output.format_size(item["size"]),
            f"{output.format_age(datetime.fromtimestamp(item['used'], UTC).isoformat())} ago",
            " ".join(item["requirements"]),
        )
        for item in items
    )
    session.write_rows(items, ("ENVIRONMENT", "PYTHON", "SIZE", "USED", "REQUIRES"), rows, "no environments")
