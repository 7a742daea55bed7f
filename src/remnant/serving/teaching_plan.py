"""What teaching will use and how long it will take, told before it starts."""

from __future__ import annotations

from pathlib import Path

from remnant.serving.schemas import TeachingPlan
from remnant.serving.store_version import StoreVersion


def plan_teaching(version: StoreVersion, num_images: int) -> TeachingPlan:
    """The settings of the store, and an estimate for so many images."""
    state = version.state
    encoder = getattr(state.config.method, "encoder", None)
    trains = state.method.trains
    estimate = _from_history if trains else _from_measurement
    seconds, basis = estimate(version, num_images)
    return TeachingPlan(
        method=state.config.method.name,
        encoder=None if trains or encoder is None else _without_folder(encoder.name),
        licence=None if trains or encoder is None else encoder.licence,
        image_size=version.image_size,
        images=num_images,
        seconds=seconds,
        basis=basis,
    )


def _from_measurement(version: StoreVersion, num_images: int) -> tuple[float, str]:
    """A frozen encoder sees every image once."""
    each = version.seconds_per_image
    return num_images * each, f"{each:.2g} s for each image, as measured on this machine"


def _from_history(version: StoreVersion, _: int) -> tuple[float | None, str]:
    """Training takes as long as its schedule says, which hardly depends on the images."""
    for entry in reversed(version.state.history):
        seconds, count = entry.get("seconds"), entry.get("images")
        if isinstance(seconds, int | float) and isinstance(count, int):
            return float(seconds), f"the last update, of {count:,} images, took {seconds:g} s"
    return None, "no update of this store has been timed yet"


def _without_folder(name: str) -> str:
    """Clients need not know where on this machine an encoder's file lies."""
    return name if name.startswith("hf:") else Path(name).name
