"""The paper's figure of r2, which has no numbers."""

from remnant.studies.columns import ablation
from remnant.studies.study import Claim, Row, Study

_OTHERS = (10, 20, 30, 50, 60)


def _row(percent: int) -> Row:
    label = f"r2 = {percent / 100:.2f}"
    if percent == 40:
        return Row("full", label, "bimae-full", paper="bimae")
    return Row(f"fine{percent}", label, f"bimae-fine{percent}", against="full")


STUDY = Study(
    name="fine-ratio",
    title="The mask ratio of the detail branch",
    source="the figure of r2",
    question="Is 0.40 the best r2?",
    rows=tuple(_row(percent) for percent in (10, 20, 30, 40, 50, 60)),
    columns=ablation(),
    claims=tuple(
        Claim(f"0.40 is better than {percent / 100:.2f}", "full", f"fine{percent}")
        for percent in _OTHERS
    ),
    figures=("series",),
)
