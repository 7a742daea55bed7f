"""The command that puts a store on a page."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from remnant.cli import console
from remnant.errors import InputError

_NEEDED = ("fastapi", "uvicorn", "python_multipart")


def serve(
    store: Path,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: Annotated[str | None, Parameter(env_var="REMNANT_TOKEN")] = None,
    open_: Annotated[bool, Parameter(name="--open", negative="")] = False,
) -> None:
    """Ask, browse and teach a store in a browser, and offer the same as a JSON API.

    Parameters
    ----------
    store
        As `remnant learn` wrote it.
    host
        Address to listen at. Beyond this machine a token is needed, and drawn if none is given.
    port
        0 takes any that is free.
    token
        What a caller must know, in 16 or more letters and digits.
    open_
        Open the page in the browser of this machine.
    """
    if any(find_spec(name) is None for name in _NEEDED):
        raise InputError(
            'remnant serve needs packages that are not installed: pip install "remnant[serve]".'
        )
    from remnant import serving

    def tell(address: serving.Address) -> None:
        console.out.print(f"{store.name}: {address.url}", markup=False)
        console.notes.print("Ctrl-C ends the server.", style="dim")
        if open_:
            import webbrowser

            webbrowser.open(address.url)

    serving.serve(store, host=host, port=port, token=token, on_ready=tell)
