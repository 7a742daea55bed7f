"""Table 6 of the paper: the detail loss on frequencies or on pixels."""

from remnant.studies.columns import ablation
from remnant.studies.study import Claim, Row, Study

STUDY = Study(
    name="detail-domain",
    title="The domain of the detail loss",
    source="Table 6",
    question="Does the detail branch need the frequency domain?",
    rows=(
        Row("spatial", "Spatial", "bimae-spatial"),
        Row("full", "Frequency", "bimae-full", paper="bimae", against="spatial"),
    ),
    columns=ablation(),
    claims=(Claim("the loss belongs in the frequency domain", "full", "spatial"),),
)
