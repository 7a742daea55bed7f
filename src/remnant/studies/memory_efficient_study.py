"""Table 9 of the paper: other ways to save memory, in 60 KB per class."""

from remnant.studies.columns import in_tasks, mini, smoke
from remnant.studies.study import AVG, DENSITY, LAST, LEDGER, Claim, Row, Study

STUDY = Study(
    name="memory-efficient",
    title="Memory-efficient methods at equal bytes",
    source="Table 9",
    question="Is Bilateral MAE ahead of other ways to save memory?",
    rows=(
        Row("gfr", "Latent replay", "gfr"),
        Row("mnemonics", "MCIL (mnemonics)", "mnemonics"),
        Row("mecil", "Down-scaled", "mecil"),
        Row("mrdc", "JPEG compression", "mrdc"),
        Row("cim", "CIM", "cim"),
        Row("bimae", "Bilateral MAE", "bimae-full", paper="bimae", against="cim"),
    ),
    columns={
        "smoke": smoke("cifar100-10"),
        "mini": mini("cifar100", "cifar100-10"),
        "lite": in_tasks("cifar100-lite", (10,), "cifar100"),
        "paper": in_tasks("cifar100", (10,)),
    },
    claims=(Claim("ends above all other ways to save memory", "bimae", ""),),
    metrics=(AVG, LAST, DENSITY, *LEDGER),
    note=(
        "Latent replay keeps a generator in place of exemplars. The paper does not say on which "
        "methods it ran JPEG compression, CIM and the others; here each has the base of its own "
        "release, or the nearest to it; all shuffle new images and exemplars together, as "
        "published, while Bilateral MAE shows every class equally often. Memory: exemplars with "
        "all that is stored of them. Other state: what else is carried from task to task, such as "
        "a generator, a decoder or means of classes. A teacher is not carried but copied when a "
        "task begins; all of these but Bilateral MAE hold one while they learn, as large as the "
        "network."
    ),
)
