"""The columns that studies share, by scale.

`smoke` shows in minutes that everything runs; its numbers mean nothing. `mini` compares methods on
ten classes; each row runs as it was published and with class-balanced batches, since the way in
which batches are drawn outweighs most methods. `lite` has the paper's streams, `paper` its networks
and schedules too.
"""

from __future__ import annotations

from remnant.studies.study import Column, StudyScale

# Twice as large as they are, so that there are sixteen patches to hide.
_SMOKE = {"data.images_per_class": 12, "data.image_size": 16, "method.first.epochs": 1}
_BALANCED = {"method.first.sampling": "balanced"}
_SYMMETRIC = {"method.presentation": "symmetric"}


def smoke(printed: str) -> tuple[Column, ...]:
    return (Column("smoke", "Digits, 5 tasks", "digits", _SMOKE, printed),)


def in_tasks(start: str, counts: tuple[int, ...], printed: str = "") -> tuple[Column, ...]:
    """One column per number of tasks; `printed`: how protocols with printed numbers start."""
    return tuple(
        Column(f"{count}", f"{count} tasks", f"{start}-{count}", {}, f"{printed or start}-{count}")
        for count in counts
    )


def mini(dataset: str, printed: str) -> tuple[Column, ...]:
    """As published, and with class-balanced batches for all."""
    protocol = f"{dataset}-mini"
    return (
        Column("published", "as published", protocol, {}, printed),
        Column("balanced", "balanced batches", protocol, _BALANCED, printed),
    )


def mini_bimae(printed: str = "cifar100-10") -> tuple[Column, ...]:
    """For Bilateral MAE: as published, and with nothing that gives old images away.

    Published, exemplars are blurred or cropped otherwise than new images, which are sharp, and a
    network learns that difference in place of the classes; see docs/methods/bimae.md.
    """
    return (
        Column("published", "as published", "cifar100-mini", {}, printed),
        Column("symmetric", "symmetric", "cifar100-mini", _SYMMETRIC, printed),
    )


def ablation() -> dict[StudyScale, tuple[Column, ...]]:
    """Columns of the paper's ablations, all on CIFAR-100 in ten tasks."""
    return {
        "smoke": smoke("cifar100-10"),
        "mini": mini_bimae(),
        "lite": in_tasks("cifar100-lite", (10,), "cifar100"),
        "paper": in_tasks("cifar100", (10,)),
    }
