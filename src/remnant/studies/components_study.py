"""Table 4 of the paper: Bilateral MAE, component by component."""

from remnant.studies.columns import ablation
from remnant.studies.study import AVG, Claim, Row, Study

STUDY = Study(
    name="components",
    title="Bilateral MAE, component by component",
    source="Table 4",
    question="What does each part of the method add?",
    rows=(
        Row("baseline", "Baseline: 20 whole images", "bimae-baseline"),
        Row("replay", "+ generated replay", "bimae-replay", against="baseline"),
        Row("reconstruction", "+ reconstruction loss", "bimae-reconstruction", against="replay"),
        Row("full", "+ detail branch", "bimae-full", paper="bimae", against="reconstruction"),
    ),
    columns=ablation(),
    claims=(
        Claim("more exemplars, completed, beat fewer whole ones", "replay", "baseline"),
        Claim("the reconstruction loss helps", "reconstruction", "replay"),
        Claim("the detail branch helps", "full", "reconstruction"),
        Claim("the whole method is ahead of the baseline", "full", "baseline"),
        Claim("the whole method is ahead on average", "full", "baseline", AVG),
    ),
    figures=("curves",),
)
