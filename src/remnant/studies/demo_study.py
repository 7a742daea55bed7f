"""What remnant is for, on embedded data: three learners in two kibibytes per class."""

from remnant.studies.study import AVG, FORGETTING, LAST, NEWEST, Claim, Column, Row, Study

_ALIKE = {
    "memory.budget": "2KiB/class",
    "memory.codec": {"name": "transform", "quality": 50},
    "method.first.sampling": "balanced",
    "method.first.epochs": 20,
    "method.first.steps_from": "new",
}

STUDY = Study(
    name="demo",
    title="Ten digits, two at a time",
    source="",
    question="Who still knows the first digits after the last?",
    rows=(
        Row("bimae", "Bilateral MAE, best options", "bimae", printed=(), against="er"),
        Row("er", "Plain replay", "er", printed=(), against="finetune"),
        Row("finetune", "Fine-tuning", "finetune", printed=()),
    ),
    columns={"mini": (Column("2KiB", "2 KiB per class", "digits", _ALIKE),)},
    claims=(
        Claim("ends above plain replay at equal bytes", "bimae", "er"),
        Claim("ends above a network that keeps nothing", "bimae", "finetune"),
    ),
    metrics=(AVG, LAST, FORGETTING, NEWEST),
    figures=("curves", "memory"),
    equal="flops",
    tells_winner=True,
)
