"""The command that serves a store as a web page and an API."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from remnant.cli import console
from remnant.errors import InputError, how_to_install

_NEEDED = ("fastapi", "uvicorn", "python_multipart")


def serve(
    store: Path,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: Annotated[str | None, Parameter(env_var="REMNANT_TOKEN")] = None,
    proxied_as: str | None = None,
    audit: Path | None = None,
    open_: Annotated[bool, Parameter(name="--open", negative="")] = False,
) -> None:
    """Serve a store as a web page and a JSON API: predict, teach, and browse its exemplars.

    Parameters
    ----------
    store
        Store file written by `remnant learn`.
    host
        Address to listen on. If other machines can reach it, a token is required; without --token
        a random one is generated.
    port
        Port to listen on; 0 picks a free one.
    token
        Token that clients must send: 16 or more letters, digits, - or _.
    proxied_as
        Name of a reverse proxy with TLS in front, such as store.example.org; a token is required
        then too.
    audit
        File to which a line of JSON is added for every attempt to change the store.
    open_
        Open the page in a browser on this machine.
    """
    if any(find_spec(name) is None for name in _NEEDED):
        raise InputError(
            f"remnant serve needs packages that are not installed. {how_to_install('serve')}"
        )
    from remnant import serving

    def announce(address: serving.Address) -> None:
        console.out.print(f"{store.name}: {address.url}", markup=False)
        console.notes.print("Press Ctrl-C to stop the server.", style="dim")
        if open_:
            import webbrowser

            webbrowser.open(address.url)

    serving.serve(
        store,
        host=host,
        port=port,
        token=token,
        proxied_as=proxied_as,
        audit=audit,
        on_ready=announce,
    )
