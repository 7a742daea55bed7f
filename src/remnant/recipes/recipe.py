"""A recipe: a preset under a protocol, and all that is known of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from remnant.config import RunConfig
from remnant.memory import MemoryConfig, RawConfig
from remnant.methods import METHODS
from remnant.recipes.presets import Preset, Published, Setup
from remnant.recipes.protocols import Protocol

MEASURED = Path(__file__).with_name("measured.json")  # of docs/runs, by benchmarks/write_results.py

TRIALS = MEASURED.with_name("trials.json")  # likewise


@dataclass(frozen=True)
class Measured:
    """What one run of a recipe gave here, in percent."""

    avg: float
    last: float
    forgetting: float
    hours: float
    hardware: str


@dataclass(frozen=True)
class Recipe:
    """A preset under a protocol; called, it gives the config of the run."""

    name: str
    preset: Preset
    protocol: Protocol

    def __call__(self) -> RunConfig:
        setup, protocol = self.setup, self.protocol
        order = setup.order or protocol.stream.order
        stream = {"order": order, "num_tasks": self.num_tasks}
        memory = MemoryConfig(
            budget=setup.budget or protocol.budget,
            codec=setup.codec or RawConfig(),
            selection=setup.selection,
            count_overhead=setup.count_overhead,
        )
        return RunConfig(
            recipe=self.name,
            data=protocol.data,
            stream=protocol.stream.model_copy(update=stream),
            augment=protocol.augment.model_copy(update={"rand_augment": setup.rand_augment}),
            memory=memory if METHODS[setup.method.name].uses_memory else None,
            method=setup.method,
        )

    @property
    def setup(self) -> Setup:
        setup = self.preset.setup(self.protocol.scale)
        assert setup is not None, self.name  # `check_preset` has seen to it
        return setup

    @property
    def num_tasks(self) -> int | None:
        return self.preset.num_tasks or self.protocol.stream.num_tasks

    @property
    def command(self) -> str:
        return f"remnant run {self.name}"

    @property
    def published(self) -> tuple[Published, ...]:
        return tuple(row for row in self.preset.published if row.protocol == self.protocol.name)

    @property
    def measured(self) -> Measured | None:
        values = _read_measured().get(self.name)
        return None if values is None else Measured(**values)

    @property
    def about(self) -> str:
        """One line: what is learned, by which network, for how long, and whose settings it has."""
        setup, first, later = self.setup, self.setup.method.first, self.setup.method.later
        parts = [
            _spell_network(setup.method.model_dump()),
            f"{first.epochs} epochs" + (f", then {later.epochs}" if later else ""),
            setup.about,
            f"as in {setup.source}" if setup.source else "",
        ]
        tasks = "" if self.num_tasks is None else f"{self.num_tasks} tasks"
        tasks = "1 task" if self.num_tasks == 1 else tasks
        protocol = ", ".join(filter(None, (self.protocol.title, tasks, self.protocol.takes)))
        return f"{protocol}: {', '.join(filter(None, parts))}."


def _spell_network(method: dict[str, Any]) -> str:
    if "backbone" in method:
        return method["backbone"]["name"].replace("resnet", "ResNet-")
    network = method.get("network", {})
    if network.get("encoder") == "conv":
        return f"convolutions of {', '.join(map(str, network['channels']))} channels"
    return f"width {network['width']}" if network else ""


@cache
def count_trials() -> dict[str, int]:
    """How many settings of each method were tried on held-out images; none: not listed."""
    return json.loads(TRIALS.read_bytes())


@cache
def _read_measured() -> dict[str, dict[str, Any]]:
    return json.loads(MEASURED.read_bytes())
