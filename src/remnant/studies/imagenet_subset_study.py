"""Table 2 of the paper: ImageNet-Subset; at mini scale Tiny-ImageNet stands in."""

from remnant.studies.cifar100_study import ROWS as CIFAR100_ROWS
from remnant.studies.columns import in_tasks, mini, smoke
from remnant.studies.study import FORGETTING, Claim, Study

_PRINTED = ("bic", "podnet", "expandable", "expandable-pruned", "dytox", "bimae")

STUDY = Study(
    name="imagenet-subset",
    title="ImageNet-Subset in 10, 20 and 50 tasks",
    source="Table 2 and its figure",
    question="Does the order of the methods hold at 224 px?",
    rows=tuple(row for row in CIFAR100_ROWS if row.name in _PRINTED),
    columns={
        "smoke": smoke("imagenet-subset-10"),
        "mini": mini("tiny-imagenet", "imagenet-subset-10"),
        "paper": in_tasks("imagenet-subset", (10, 20, 50)),
    },
    claims=(
        Claim("ends above DyTox", "bimae", "dytox"),
        Claim("ends above DER, whose network grows", "bimae", "expandable"),
        Claim("forgets less than every other method", "bimae", "", FORGETTING),
    ),
    figures=("curves",),
)
