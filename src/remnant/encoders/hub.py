"""Weights from the Hugging Face hub: safetensors only, at a revision that is kept."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remnant.encoders.encoder_facts import FACTS, read_facts
from remnant.errors import InputError, how_to_install

HUB = "hf:"
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class HubEncoder:
    """What a repository holds, on this machine."""

    name: str  # with the revision
    weights: Path
    facts: dict[str, Any]
    licence: str


def fetch_from_hub(name: str, *, has_facts: bool = True) -> HubEncoder:
    """Download an encoder, or find it where it was downloaded before.

    Args:
        name: hf:ORG/NAME or hf:ORG/NAME@REVISION; without a revision the newest is taken, and the
            name that is returned has it.

    Raises:
        InputError: The extra is not installed, or the repository cannot be used.
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        raise InputError(
            f"{name} needs huggingface_hub, which is not installed. {how_to_install('hub')}"
        )
    from huggingface_hub import (
        _CACHED_NO_EXIST,
        HfApi,
        hf_hub_download,
        try_to_load_from_cache,
    )
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
    )

    repository, _, revision = name.removeprefix(HUB).partition("@")
    if repository.count("/") != 1:
        raise InputError(f"an encoder of the hub is named hf:ORG/NAME; got {name!r}.")
    licence = ""
    facts: dict[str, Any] = {}
    # Their client's own errors are of httpx2, httpx or requests, depending on the version.
    clients: tuple[Any, ...] = HfHubHTTPError.__bases__
    try:
        if not _is_commit(revision):
            known = HfApi().model_info(repository, revision=revision or None)
            revision = known.sha or ""
            licence = str((known.card_data or {}).get("license") or "")

        def fetch(file: str) -> Path:
            return Path(hf_hub_download(repository, file, revision=revision))

        weights = fetch(_WEIGHTS)
        for file in FACTS if has_facts else ():
            try:
                facts |= read_facts(fetch(file))
            except LocalEntryNotFoundError:
                known_file = try_to_load_from_cache(repository, file, revision=revision)
                if known_file is not _CACHED_NO_EXIST:  # nor is it known not to exist
                    raise
            except EntryNotFoundError:  # not every repository has it
                continue
    except (OSError, EntryNotFoundError, HfHubHTTPError, HFValidationError, *clients) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
        raise InputError(
            f"{name} cannot be fetched from the hub: {reason}. Check the name and the network."
        ) from None
    return HubEncoder(f"{HUB}{repository}@{revision}", weights, facts, licence or "unknown")


def _is_commit(revision: str) -> bool:
    return len(revision) == 40 and all(digit in "0123456789abcdef" for digit in revision)
