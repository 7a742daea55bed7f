"""Table 3 of the paper: a thousand classes in ten tasks, top-1 and top-5."""

from remnant.studies.columns import mini, smoke
from remnant.studies.study import AVG, LAST, TOP5_AVG, TOP5_LAST, Claim, Column, Row, Study

STUDY = Study(
    name="imagenet-full",
    title="ImageNet-Full in 10 tasks",
    source="Table 3",
    question="Does it hold with a thousand classes?",
    rows=(
        Row("icarl", "iCaRL", "icarl"),
        Row("simple-expandable", "Simple-DER", "simple-expandable"),
        Row("expandable", "DER w/o P", "expandable"),
        Row("expandable-pruned", "DER", "expandable-pruned"),
        Row("dytox", "DyTox", "dytox"),
        Row("bimae", "Bilateral MAE", "bimae-full", paper="bimae", against="dytox"),
    ),
    columns={
        "smoke": smoke("imagenet-full"),
        "mini": mini("tiny-imagenet", "imagenet-full"),
        "paper": (Column("10", "10 tasks", "imagenet-full", {}, "imagenet-full"),),
    },
    claims=(
        Claim("ends above all others", "bimae", ""),
        Claim("ends above DyTox by top-5", "bimae", "dytox", TOP5_LAST),
    ),
    metrics=(AVG, LAST, TOP5_AVG, TOP5_LAST),
)
