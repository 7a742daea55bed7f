"""The data sets on this machine: `remnant data get|check|list`."""

from __future__ import annotations

from cyclopts import App

from remnant.cli import console, listing

app = App(name="data", help="Download, verify and list data sets.")


@app.command(name="list")
def list_(
    *,
    data_root: console.DataRoot = None,
    as_json: console.JsonOption = False,
) -> None:
    """List the data sets, their size and whether their files are here."""
    rows = listing.list_datasets(None if data_root is None else str(data_root))
    if as_json:
        console.print_json(rows)
    else:
        listing.print_datasets(rows)


@app.command
def get(name: str, /, *, data_root: console.DataRoot = None) -> None:
    """Download a data set, verify it, and unpack the files that are needed.

    Parameters
    ----------
    name
        A name from `remnant data list`.
    """
    from remnant.data import DATASETS, get_dataset

    with console.counting(name, in_bytes=True) as count:
        folder = get_dataset(name, None if data_root is None else str(data_root), progress=count)
    spec = DATASETS[name]
    if spec.archive is None:
        console.notes.print(f"{name} comes with {spec.facts.source}: nothing to download.")
    else:
        print(folder)


@app.command
def check(name: str, /, *, data_root: console.DataRoot = None) -> None:
    """Verify the files of a data set, by checksum or by decoding every image.

    For your own images, the name is folder and --data-root is the folder that holds them.

    Parameters
    ----------
    name
        A name from `remnant data list`.
    """
    from remnant.data import check_dataset

    with console.counting(name, in_bytes=False) as count:
        lines = check_dataset(name, None if data_root is None else str(data_root), progress=count)
    for line in lines:
        print(line)
