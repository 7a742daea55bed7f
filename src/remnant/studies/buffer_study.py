"""Table 8 of the paper: DyTox with 20 images and with 80 quarters of images."""

from remnant.studies.columns import in_tasks, mini_bimae, smoke
from remnant.studies.study import LAST, Claim, Row, Study

STUDY = Study(
    name="buffer",
    title="Effective size of the memory",
    source="Table 8",
    question="Does the gain come from the number of exemplars alone?",
    rows=(
        Row("dytox", "DyTox, 20 images", "dytox"),
        Row("dytox-masked", "DyTox, 80 quarters", "dytox-masked", against="dytox"),
        Row(
            "dytox-masked-tokens",
            "DyTox, 80 quarters as tokens",
            "dytox-masked",
            changes={"method.masked_input": "tokens"},
            printed=(),
            against="dytox",
        ),
        Row(
            "full",
            "Bilateral MAE, 80 quarters",
            "bimae-full",
            paper="bimae",
            against="dytox-masked",
        ),
    ),
    columns={
        "smoke": smoke("cifar100-10"),
        "mini": mini_bimae(),
        "lite": in_tasks("cifar100-lite", (10,), "cifar100"),
        "paper": in_tasks("cifar100", (10,)),
    },
    claims=(
        Claim("80 quarters serve DyTox better than 20 images", "dytox-masked", "dytox"),
        Claim("Bilateral MAE makes more of the same quarters", "full", "dytox-masked"),
    ),
    metrics=(LAST,),
    note=(
        "The paper does not say how a quarter enters DyTox: as an image with its hidden patches in "
        "the mean colour, or by its tokens alone. Published, new images are whole, and what is "
        "hidden names the old classes; symmetric, new images are masked as much. In both columns "
        "DyTox shuffles new images and exemplars together, as published, while Bilateral MAE shows "
        "every class equally often, except at paper scale."
    ),
)
