"""The paper's figure of feature density."""

from remnant.studies.cifar100_study import STUDY as CIFAR100
from remnant.studies.study import DENSITY, LAST, Claim, Row, Study

STUDY = Study(
    name="density",
    title="Density of the features",
    source="the figure of π",
    question="Are the features of Bilateral MAE denser, and does that go with accuracy?",
    rows=(*CIFAR100.rows, Row("pass", "PASS", "pass")),
    columns=CIFAR100.columns,
    claims=(Claim("the features are denser than those of all others", "bimae", "", DENSITY),),
    metrics=(DENSITY, LAST),
    figures=("density",),
    note="π is the mean cosine within a class over that between classes, at the end.",
)
