"""Table 1 of the paper: eight systems on CIFAR-100 in 10, 20 and 50 tasks."""

from remnant.studies.columns import in_tasks, mini, smoke
from remnant.studies.study import AVG, DENSITY, FORGETTING, LAST, LEDGER, Claim, Row, Study

ROWS = (
    Row("icarl", "iCaRL", "icarl"),
    Row("ucir", "UCIR", "ucir"),
    Row("bic", "BiC", "bic"),
    Row("podnet", "PODNet", "podnet"),
    Row("expandable", "DER w/o P", "expandable"),
    Row("expandable-pruned", "DER", "expandable-pruned"),
    Row("dytox", "DyTox", "dytox"),
    Row("bimae", "Bilateral MAE", "bimae-full", paper="bimae", against="dytox"),
)

STUDY = Study(
    name="cifar100",
    title="CIFAR-100 in 10, 20 and 50 tasks",
    source="Table 1 and its figure",
    question="Is Bilateral MAE ahead of the methods of its day at equal bytes of memory?",
    rows=(
        *ROWS,
        Row("er", "ER", "er", is_rival=False),
        Row(
            "best",
            "Bilateral MAE, best options",
            "bimae",
            paper="best",
            printed=(),
            against="er",
            is_rival=False,
        ),
    ),
    columns={
        "smoke": smoke("cifar100-10"),
        "mini": mini("cifar100", "cifar100-10"),
        "lite": in_tasks("cifar100-lite", (10, 20, 50), "cifar100"),
        "paper": in_tasks("cifar100", (10, 20, 50)),
    },
    claims=(
        Claim("ends above DyTox", "bimae", "dytox"),
        Claim("ends above DER, whose network grows", "bimae", "expandable"),
        Claim("ends above iCaRL", "bimae", "icarl"),
        Claim("forgets less than every other method", "bimae", "", FORGETTING),
    ),
    metrics=(AVG, LAST, FORGETTING, DENSITY, *LEDGER),
    figures=("curves",),
    note=(
        "The paper does not have the rows ER and best options. π is the mean cosine within a class "
        "over that between classes. Other state: what is carried from task to task beside network "
        "and exemplars."
    ),
)
