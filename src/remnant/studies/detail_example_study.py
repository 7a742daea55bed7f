"""The paper's example of what the detail branch is to draw."""

from remnant.studies.columns import ablation
from remnant.studies.study import Row, Study

STUDY = Study(
    name="detail-example",
    title="What the detail branch draws",
    source="the figure of x1, x2 and their difference",
    question="Is the difference of two reconstructions the detail of the image?",
    rows=(Row("full", "Bilateral MAE", "bimae-full", paper="bimae"),),
    columns=ablation(),
    figures=("detail-example",),
)
