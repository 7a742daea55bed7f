"""Table 5 of the paper: mask ratios, and real images in place of completed ones."""

from remnant.studies.columns import ablation
from remnant.studies.study import Claim, Row, Study

STUDY = Study(
    name="mask-ratio",
    title="How much of an image is kept",
    source="Table 5",
    question="Which share of patches serves best, and what is lost against real images?",
    rows=(
        Row("mask60", "r = 0.60", "bimae-mask60", against="full"),
        Row("full", "r = 0.75", "bimae-full", paper="bimae"),
        Row("mask90", "r = 0.90", "bimae-mask90", against="full"),
        Row("real-bytes", "real images, as many bytes", "bimae-real-bytes", against="full"),
        Row("real-count", "real images, as many images", "bimae-real-count", against="full"),
    ),
    columns=ablation(),
    claims=(
        Claim("0.75 is better than 0.60", "full", "mask60"),
        Claim("0.75 is better than 0.90", "full", "mask90"),
        Claim(
            "completed images end within 0.5 points of as many real ones",
            "full",
            "real-count",
            margin=-0.5,
        ),
        Claim(
            "completed images end within 0.5 points of real ones in the same bytes",
            "full",
            "real-bytes",
            margin=-0.5,
        ),
    ),
    note=(
        'The paper calls its real images "equivalent in storage size", which can mean as many '
        "bytes (20 images) or as many images (80): there is a row for each reading, with the same "
        "reported numbers."
    ),
)
