"""`mizzen import`: graphs of other systems, converted to manifests of Mizzen."""

from __future__ import annotations

from typing import Annotated

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.objects.apply import Files
from mizzen.cli.objects.get import join_objects
from mizzen.cli.output import DataFormat
from mizzen.cli.parameters import option


def import_(
    files: Files,
    form: Annotated[DataFormat, option("Output format.", "--output", "-o")] = DataFormat.YAML,
) -> None:
    """Convert InferenceGraphs and SeldonDeployments to MLGraphs. Needs no plane.

    Manifests go to stdout. Notes on differences, omissions and models to serve go to stderr. Exits with 0 if something
    was converted, with 1 if nothing was.

    \b
    Example:
      mizzen import -f inferencegraph.yaml > graph.yaml
      mizzen import -f - < seldondeployments.yaml
      mizzen import -f manifests/ -o json
    """
    from mizzen.importers import files as importing

    found = importing.import_objects([one for file in files for one in importing.read(file)])
    for note in found.notes:
        output.note(f"{'error' if note.refused else 'note'}: {note}")
    if not found.manifests:
        raise errors.Invalid(
            "nothing was converted to an MLGraph",
            hint="only InferenceGraphs and SeldonDeployments can be converted; see the notes above",
        )
    if form is DataFormat.JSON:
        output.write_data(join_objects(found.manifests), output.Format.JSON)
        return
    for index, manifest in enumerate(found.manifests):
        if index:
            output.write("---")
        output.write_data(manifest, output.Format.YAML)
