"""The Python entry to a run: `remnant.run("digits-er", out="runs/first")`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remnant.config import RunConfig, override
from remnant.phases import Watcher
from remnant.planning.run_estimate import images_per_task
from remnant.recipes import load_recipe
from remnant.runs.experiment import run as execute
from remnant.runs.sweeps import as_folder_name
from remnant.terminal.progress import watch


def run(
    config: RunConfig | str | Path,
    out: str | Path | None = None,
    *,
    settings: dict[str, Any] | None = None,
    progress: bool = True,
    watchers: Sequence[Watcher] = (),
) -> dict[str, Any]:
    """Carry out a run and return what its result.json says.

    Args:
        config: A config, the name of a recipe, or the path of a config.json.
        out: A new or empty folder; by default `runs/<recipe>`.
        settings: Changes to the config, keys as in config.json: `{"method.first.epochs": 3}`.
        progress: Show a bar (or a line per epoch) on standard error.
        watchers: Are told what happens; trackers are subclasses of `remnant.RunWatcher`.

    Raises:
        InputError: Something in the config or the data cannot be used.
    """
    resolved = config if isinstance(config, RunConfig) else load_recipe(str(config))
    resolved = override(resolved, _plain({} if settings is None else settings))
    folder = Path(out) if out is not None else Path("runs") / as_folder_name(resolved.recipe)
    if not progress:
        return execute(resolved, folder, watchers=tuple(watchers)).model_dump(mode="json")
    with watch(images_per_task(resolved)) as shown:
        return execute(resolved, folder, watchers=(shown, *watchers)).model_dump(mode="json")


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them, paths as text."""
    return json.loads(json.dumps(settings, default=str))
