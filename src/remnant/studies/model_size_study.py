"""Table 7 of the paper: accuracy and number of parameters."""

from remnant.studies.columns import in_tasks, mini, smoke
from remnant.studies.study import AVG, FORGETTING, LAST, MILLIONS, Claim, Row, Study

STUDY = Study(
    name="model-size",
    title="Accuracy and number of parameters",
    source="Table 7",
    question="Is Bilateral MAE ahead for its size, and what does a smaller one lose?",
    rows=(
        Row("expandable", "DER w/o P", "expandable"),
        Row("dytox", "DyTox", "dytox"),
        Row("full", "Bilateral MAE", "bimae-full", paper="bimae", against="dytox"),
        Row("half-mlp", "Bilateral MAE, half of the MLP's width", "bimae-mlp768", against="full"),
    ),
    columns={
        "smoke": smoke("cifar100-10"),
        "mini": mini("cifar100", "cifar100-10"),
        "lite": in_tasks("cifar100-lite", (10,), "cifar100"),
        "paper": in_tasks("cifar100", (10,)),
    },
    claims=(
        Claim("ends above DER, whose network is larger", "full", "expandable"),
        Claim("the smaller one loses less than a point", "half-mlp", "full", margin=-1.0),
        Claim("the smaller one is still ahead of DyTox", "half-mlp", "dytox"),
    ),
    metrics=(MILLIONS, AVG, LAST, FORGETTING),
)
