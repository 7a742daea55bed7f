"""Table 9 of the paper: other ways to save memory, in 60 KB per class."""

from remnant.recipes.bimae_presets import OTHER_MEMORIES
from remnant.studies.columns import in_tasks, mini, smoke
from remnant.studies.study import AVG, LAST, Claim, Row, Study


def _other(name: str, label: str, key: str) -> Row:
    """A system whose numbers the paper prints and which is not in remnant."""
    return Row(name, label, "", printed=(OTHER_MEMORIES[key],))


STUDY = Study(
    name="memory-efficient",
    title="Memory-efficient methods at equal bytes",
    source="Table 9",
    question="Is Bilateral MAE ahead of other ways to save memory?",
    rows=(
        _other("gfr", "Latent replay", "latent-replay"),
        _other("mnemonics", "MCIL (mnemonics)", "MCIL"),
        _other("mecil", "Down-scaled", "down-scaled"),
        _other("mrdc", "JPEG compression", "JPEG"),
        _other("cim", "CIM", "CIM"),
        Row("bimae", "Bilateral MAE", "bimae-full", paper="bimae"),
    ),
    columns={
        "smoke": smoke("cifar100-10"),
        "mini": mini("cifar100", "cifar100-10"),
        "lite": in_tasks("cifar100-lite", (10,), "cifar100"),
        "paper": in_tasks("cifar100", (10,)),
    },
    claims=(Claim("ends above all other ways to save memory", "bimae", ""),),
    metrics=(AVG, LAST),
    note="Rows without measured numbers are systems that remnant does not have yet.",
)
