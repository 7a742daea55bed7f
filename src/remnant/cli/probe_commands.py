"""The command that asks whether a run learned from how its images look."""

from __future__ import annotations

from pathlib import Path

from remnant.cli import console


def probe(
    folder: Path,
    /,
    *,
    images: int = 2000,
    data_root: console.DataRoot = None,
    as_json: console.JsonOption = False,
) -> None:
    """Measure whether a network tells old classes from new ones by how images look.

    Shows the test images of a finished run as they are, with a border, blurred, masked, completed
    and coded, and counts how many are then taken for the newest classes.

    Parameters
    ----------
    folder
        A finished run.
    images
        Maximum number of test images of the old classes, and again of the newest.
    """
    from remnant.probe import probe_run
    from remnant.terminal.probe_table import cue_lines

    table = probe_run(folder, max_images=images, data_root=data_root)
    if as_json:
        console.print_json(table.to_json())
        return
    for line in cue_lines(table.to_json()):
        console.out.print(line)
