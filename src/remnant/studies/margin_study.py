"""Where the flagship's margin over plain replay comes from, step by step."""

from remnant.studies.budgets_study import (
    ADJUSTED,
    CONVOLUTIONS,
    ORDERS,
    VIEWS,
    WHOLE,
    column,
)
from remnant.studies.columns import smoke
from remnant.studies.study import AVG, FORGETTING, LAST, NEWEST, TFLOP, Claim, Row, Study

_WHOLE_UNADJUSTED = WHOLE | {"method.logit_adjustment": 0.0}
_UNION = {"method.first.sampling": "union"}
_RAW = {"memory.codec": {"name": "raw"}}
_FINE = {"memory.codec": {"name": "transform", "quality": 75}}
# The paper's transformer at mini scale, with the optimiser that suits it.
_TRANSFORMER = WHOLE | {
    "method.network.encoder": "vit",
    "method.network.patch_size": 4,
    "method.network.width": 128,
    "method.network.mlp_width": 512,
    "method.network.fusion_mlp_width": 512,
    "method.first.optimizer.name": "adamw",
    "method.first.optimizer.lr": 1e-3,
    "method.first.optimizer.nesterov": False,
    "method.first.optimizer.weight_decay": 0.05,
}
STUDY = Study(
    name="margin",
    title="What the flagship's margin is made of",
    source="",
    question="Which part of the margin is memory, sampling, network, views, scores and masks?",
    rows=(
        Row("er-published", "ER: raw exemplars, shuffled", "er", changes=_RAW | _UNION, printed=()),
        Row("er-union", "+ coded exemplars (memory)", "er", changes=_UNION, printed=(),
            against="er-published"),
        Row("er", "+ balanced batches (sampling)", "er", printed=(), against="er-union"),
        Row("er-conv", "+ the flagship's network and rate (learner)", "er", changes=CONVOLUTIONS,
            printed=(), against="er"),
        Row("er-views", "+ coded views of new images, smoothed labels", "er",
            changes=CONVOLUTIONS | VIEWS, printed=(), against="er-conv"),
        Row("whole", "+ adjusted scores", "bimae", changes=WHOLE, printed=(), against="er-views"),
        Row("best", "+ masked training: Bilateral MAE, best options", "bimae", printed=(),
            against="whole"),
        Row("resnet-views", "ER on ResNet-32 with coded views and smoothed labels", "er",
            changes=VIEWS, printed=(), against="er"),
        Row("er-adjusted", "ER on ResNet-32 with adjusted scores", "er", changes=ADJUSTED,
            printed=(), against="er"),
        Row("unadjusted", "without masked training and adjusted scores", "bimae",
            changes=_WHOLE_UNADJUSTED, printed=(), against="whole"),
        Row("no-smoothing", "without masked training, adjusted scores and smoothed labels", "bimae",
            changes=_WHOLE_UNADJUSTED | {"method.label_smoothing": 0.0}, printed=(),
            against="unadjusted"),
        Row("no-views", "without masked training, adjusted scores and coded views", "bimae",
            changes=_WHOLE_UNADJUSTED | {"method.codec_view_ratio": 0.0}, printed=(),
            against="unadjusted"),
        Row("union", "without balanced batches", "bimae", changes=_UNION, printed=(),
            against="best"),
        Row("fine", "at quality 75", "bimae", changes=_FINE, printed=(),
            against="best"),
        Row("vit", "without masked training, with a transformer instead of the CNN", "bimae",
            changes=_TRANSFORMER, printed=(), against="whole"),
    ),
    columns={"smoke": smoke(""), "mini": (column("1.5"), column("6"), column("60"))},
    claims=(
        Claim("coded exemplars help plain replay", "er-union", "er-published"),
        Claim("balanced batches help plain replay", "er", "er-union"),
        Claim("the network helps plain replay", "er-conv", "er"),
        Claim("new images as coarse as exemplars help", "er-views", "er-conv"),
        Claim("coded views help plain replay on a ResNet-32", "resnet-views", "er"),
        Claim("adjusted scores help without masked training", "whole", "unadjusted"),
        Claim("masked training helps the flagship", "best", "whole"),
        Claim("adjusted scores help plain replay on a ResNet-32", "er-adjusted", "er"),
    ),
    metrics=(AVG, LAST, FORGETTING, NEWEST, TFLOP),
    orders=ORDERS,
    note=(
        "From the first row to the flagship each row adds one group of changes to the row above "
        "it; once all have run, the differences add up to the whole margin. The two rows below the "
        "flagship give its views and its scores to plain replay on a ResNet-32; the others take "
        "something away from the flagship. At 1.5 KiB there are too few exemplars for masked "
        "training, which is used in the first task alone."
    ),
)  # fmt: skip
