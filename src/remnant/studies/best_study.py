"""The flagship against all methods, all with coded exemplars."""

from dataclasses import replace

from remnant.studies.budgets_study import ORDERS, ROWS
from remnant.studies.columns import in_tasks, smoke
from remnant.studies.study import AVG, FORGETTING, LAST, NEWEST, TFLOP, Claim, Column, Row, Study

_CODED = {"memory.codec": {"name": "transform", "quality": "auto"}}
_BALANCED = {"method.first.sampling": "balanced"}
_OF_BUDGETS_ALONE = ("bic-conv", "icarl-conv")


def _coded(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(
        replace(column, name=f"{column.name}-coded", changes=_CODED | _BALANCED, printed="")
        for column in columns
    )


STUDY = Study(
    name="best",
    title="The flagship against all methods at 60 KiB per class",
    source="",
    question="Is the flagship first when every method has the codec and the sampling that suit it?",
    rows=(
        replace(ROWS[0], paper="best"),
        *(row for row in ROWS[1:] if row.is_rival and row.name not in _OF_BUDGETS_ALONE),
        Row("ucir", "UCIR", "ucir", printed=()),
        Row("wa", "WA", "wa", printed=()),
    ),
    columns={
        "smoke": smoke(""),
        "mini": (
            Column("coded", "coded, sampling as published", "cifar100-mini", _CODED),
            # Under this name the study of budgets has the same runs.
            Column("60KiB", "coded, balanced", "cifar100-mini", _CODED | _BALANCED),
        ),
        "lite": _coded(in_tasks("cifar100-lite", (10,))),
        "paper": _coded(in_tasks("cifar100", (10, 20, 50))),
    },
    claims=(
        Claim("ends first at equal bytes", "best", ""),
        Claim("is first on average at equal bytes", "best", "", AVG),
    ),
    metrics=(AVG, LAST, FORGETTING, NEWEST, TFLOP),
    figures=("curves",),
    orders=ORDERS,
)
