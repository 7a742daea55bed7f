"""Named runs: `<dataset>[-<scale>]-<method>[-<variant>][-<tasks>]`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from remnant.config import RunConfig, load_config
from remnant.errors import InputError, nearest
from remnant.recipes import bimae_runs as bimae
from remnant.recipes import classic, distilled, simple
from remnant.recipes import dytox_runs as dytox
from remnant.recipes import expandable_runs as expandable

SIMPLE: tuple[simple.Simple, ...] = ("finetune", "er", "joint")
CLASSIC: tuple[classic.Classic, ...] = ("lwf", "ewc", "icarl", "wa")
DISTILLED: tuple[distilled.Distilled, ...] = ("ucir", "bic", "podnet")
DYTOX: tuple[tuple[str, dytox.Variant], ...] = (  # ends of names, variants
    ("dytox", "plain"),
    ("dytox-plus", "plus"),
    ("dytox-masked", "masked"),
)
GROWING: tuple[expandable.Growing, ...] = (
    "expandable",
    "expandable-pruned",
    "simple-expandable",
)
SPLITS = (10, 20, 50)  # numbers of tasks that papers report
MINI_VARIANTS: tuple[bimae.MiniVariant, ...] = (
    "baseline",
    "replay",
    "reconstruction",
    "full",
    "exact",
)

RECIPES: dict[str, Callable[[], RunConfig]] = {
    "demo": bimae.demo,
    "digits-bimae": bimae.digits,
    **{f"digits-{name}": partial(simple.digits, name) for name in SIMPLE},
    **{f"cifar100-mini-{name}": partial(simple.mini, "cifar100", name) for name in SIMPLE},
    **{
        f"tiny-imagenet-mini-{name}": partial(simple.mini, "tiny-imagenet", name) for name in SIMPLE
    },
    "cifar100-mini-bimae": partial(bimae.mini, "cifar100"),
    **{
        f"cifar100-mini-bimae-{variant}": partial(bimae.mini, "cifar100", variant)
        for variant in MINI_VARIANTS
    },
    "tiny-imagenet-mini-bimae": partial(bimae.mini, "tiny-imagenet"),
    **{f"cifar100-bimae-{num_tasks}": partial(bimae.cifar100, num_tasks) for num_tasks in SPLITS},
    **{
        f"imagenet-subset-bimae-{num_tasks}": partial(bimae.imagenet, "imagenet-subset", num_tasks)
        for num_tasks in SPLITS
    },
    "imagenet-full-bimae": partial(bimae.imagenet, "imagenet-full", 10),
    **{
        f"cifar100-bimae-{variant}-10": partial(bimae.ablation, variant)
        for variant in bimae.ABLATIONS
    },
    **{
        f"cifar100-{name}-{num_tasks}": partial(simple.cifar100, name, num_tasks)
        for name in ("finetune", "er")
        for num_tasks in SPLITS
    },
    **{
        f"imagenet-subset-{name}-{num_tasks}": partial(
            simple.imagenet, "imagenet-subset", name, num_tasks
        )
        for name in ("finetune", "er")
        for num_tasks in SPLITS
    },
    **{
        f"imagenet-full-{name}-10": partial(simple.imagenet, "imagenet-full", name, 10)
        for name in ("finetune", "er")
    },
    **{f"digits-{name}": partial(classic.digits, name) for name in CLASSIC},
    **{
        f"{dataset}-mini-{name}": partial(classic.mini, dataset, name)
        for dataset in ("cifar100", "tiny-imagenet")
        for name in CLASSIC
    },
    **{
        f"cifar100-{name}-{num_tasks}": partial(classic.cifar100, name, num_tasks)
        for name in CLASSIC
        for num_tasks in SPLITS
    },
    **{
        f"imagenet-subset-{name}-{num_tasks}": partial(
            classic.imagenet, "imagenet-subset", name, num_tasks
        )
        for name in CLASSIC
        for num_tasks in SPLITS
    },
    "imagenet-full-icarl": partial(classic.imagenet, "imagenet-full", "icarl", 10),
    **{f"digits-{name}": partial(distilled.digits, name) for name in DISTILLED},
    **{
        f"{dataset}-mini-{name}": partial(distilled.mini, dataset, name)
        for dataset in ("cifar100", "tiny-imagenet")
        for name in DISTILLED
    },
    **{
        f"cifar100-{name}-{num_tasks}": partial(distilled.cifar100, name, num_tasks)
        for name in DISTILLED
        for num_tasks in SPLITS
    },
    **{
        f"imagenet-subset-{name}-{num_tasks}": partial(distilled.imagenet_subset, name, num_tasks)
        for name in DISTILLED
        for num_tasks in SPLITS
    },
    **{f"digits-{name}": partial(dytox.digits, variant) for name, variant in DYTOX},
    **{
        f"{dataset}-mini-{name}": partial(dytox.mini, dataset, variant)
        for dataset in ("cifar100", "tiny-imagenet")
        for name, variant in DYTOX
    },
    **{
        f"cifar100-{name}-{num_tasks}": partial(dytox.cifar100, variant, num_tasks)
        for name, variant in DYTOX
        for num_tasks in (SPLITS if variant != "masked" else (10,))
    },
    **{
        f"imagenet-subset-{name}-{num_tasks}": partial(
            dytox.imagenet, "imagenet-subset", variant, num_tasks
        )
        for name, variant in DYTOX[:2]
        for num_tasks in SPLITS
    },
    "imagenet-full-dytox": partial(dytox.imagenet, "imagenet-full", "plain", 10),
    **{f"digits-{name}": partial(expandable.digits, name) for name in GROWING},
    **{
        f"{dataset}-mini-{name}": partial(expandable.mini, dataset, name)
        for dataset in ("cifar100", "tiny-imagenet")
        for name in GROWING
    },
    **{
        f"cifar100-{name}-{num_tasks}": partial(expandable.cifar100, name, num_tasks)
        for name in GROWING
        for num_tasks in SPLITS
    },
    **{
        f"imagenet-subset-{name}-{num_tasks}": partial(
            expandable.imagenet, "imagenet-subset", name, num_tasks
        )
        for name in GROWING
        for num_tasks in SPLITS
    },
    **{
        f"imagenet-full-{name}": partial(expandable.imagenet, "imagenet-full", name, 10)
        for name in GROWING
    },
    "cifar100-joint": partial(simple.cifar100, "joint", 1),
    "imagenet-subset-joint": partial(simple.imagenet, "imagenet-subset", "joint", 1),
    "imagenet-full-joint": partial(simple.imagenet, "imagenet-full", "joint", 1),
}


def load_recipe(name: str) -> RunConfig:
    """The config of a recipe, or of a JSON file such as a run folder's config.json."""
    if name in RECIPES:
        return RECIPES[name]()
    if name.endswith(".json"):
        return load_config(Path(name))
    raise InputError(
        f"{name!r} is not a recipe.{nearest(name, RECIPES)} See remnant list recipes, or give the "
        "path of a config.json."
    )


def describe_recipe(name: str) -> str:
    """The first line of what a recipe says about itself."""
    build = RECIPES[name]
    function = build.func if isinstance(build, partial) else build
    return (function.__doc__ or "").strip().splitlines()[0]
