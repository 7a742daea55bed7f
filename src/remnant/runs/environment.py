"""environment.json: versions, machine and commit, written before training starts."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import platform
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

import torch

from remnant._version import __version__
from remnant.cores import usable_cores
from remnant.files import write_json
from remnant.runs.run_folder import ENVIRONMENT
from remnant.training.processes import TrainingConfig, acceleration_of, threads_of

log = logging.getLogger(__name__)

_PACKAGES = (
    "torch",
    "numpy",
    "lightning-fabric",
    "pydantic",
    "pillow",
    "safetensors",
    "scikit-learn",
)


def write_environment(folder: Path, training: TrainingConfig) -> None:
    """Versions, machine, what is used of it, and commit, before training starts."""
    write_json(
        folder / ENVIRONMENT,
        {
            "remnant": __version__,
            "commit": _commit(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
            "platform": platform.platform(),
            "processor": _processor(),
            "cores": usable_cores(),
            "threads": threads_of(training),
            "accelerators": [
                torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
            ],
            "acceleration": asdict(acceleration_of(training)),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
    )


def as_begun(folder: Path, training: TrainingConfig) -> TrainingConfig:
    """The config with the threads and the precision that the run began with.

    Settings that the config names stay; for the others another machine might choose differently.
    """
    try:
        recorded = json.loads((folder / ENVIRONMENT).read_bytes())
    except (OSError, ValueError, RecursionError):
        return training
    threads, precision = _entry(recorded, "threads"), _entry(recorded, "acceleration", "precision")
    changes: dict[str, object] = {}
    if training.threads is None and type(threads) is int and threads >= 1:
        changes["threads"] = threads
    if training.precision == "auto" and precision in ("32-true", "bf16-mixed"):
        changes["precision"] = precision
        if precision != acceleration_of(training).precision:
            log.warning("The run goes on in %s, in which it began on another machine.", precision)
    return training.model_copy(update=changes)


def _entry(recorded: object, *names: str) -> object:
    """An entry of environment.json; None where there is none, as in files of 0.1.0."""
    for name in names:
        recorded = recorded.get(name) if isinstance(recorded, dict) else None
    return recorded


def _commit() -> str | None:
    """The commit of a source checkout; None for an installed package."""
    here = Path(__file__).parents[1]
    if not (here.parents[1] / ".git").exists():
        return None
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
