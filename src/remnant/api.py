"""The Python entry to a run: `remnant.run("digits-er", out="runs/first")`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from remnant.config import RunConfig, override
from remnant.estimates import images_per_task
from remnant.experiment import check_plan
from remnant.experiment import run as carry_out
from remnant.progress import watch
from remnant.recipes import load_recipe


def run(
    config: RunConfig | str | Path,
    out: str | Path | None = None,
    *,
    settings: dict[str, Any] | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Carry out a run and return what its result.json says.

    Args:
        config: A config, the name of a recipe, or the path of a config.json.
        out: A new or empty folder; by default `runs/<recipe>`.
        settings: Changes to the config, keys as in config.json: `{"method.first.epochs": 3}`.
        progress: Show a bar (or a line per epoch) on standard error.

    Raises:
        InputError: Something in the config or the data cannot be used.
    """
    resolved = config if isinstance(config, RunConfig) else load_recipe(str(config))
    assignments = [
        f"{key}={json.dumps(value, default=str)}" for key, value in (settings or {}).items()
    ]
    resolved = override(resolved, assignments)
    folder = Path(out) if out is not None else Path("runs") / resolved.recipe
    check_plan(resolved)
    if not progress:
        return carry_out(resolved, folder)
    with watch(images_per_task(resolved)) as watcher:
        return carry_out(resolved, folder, watchers=(watcher,))
