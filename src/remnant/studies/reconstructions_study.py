"""The paper's figure of redrawn images, also before their task was learned."""

from remnant.studies.columns import ablation
from remnant.studies.study import Row, Study

STUDY = Study(
    name="reconstructions",
    title="Images redrawn as tasks go by",
    source="the figure of reconstructions",
    question="Are images redrawn without regard to their task, and what does each branch draw?",
    rows=(Row("full", "Bilateral MAE", "bimae-full", paper="bimae"),),
    columns=ablation(),
    figures=("reconstructions",),
)
