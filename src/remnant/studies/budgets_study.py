"""Accuracy against bytes: the flagship and its rivals with the same codec at six budgets."""

from remnant.studies.columns import smoke
from remnant.studies.study import AVG, FORGETTING, LAST, NEWEST, TFLOP, Claim, Column, Row, Study

_KIB = ("1.5", "3", "6", "15", "30", "60")  # per class
_SCARCE, _AMPLE = ("1.5KiB", "3KiB", "6KiB"), ("15KiB", "30KiB", "60KiB")
# The network and the optimiser of the flagship under plain replay, so that method and network are
# told apart.
CONVOLUTIONS = {
    "method.backbone.name": "conv",
    "method.first.optimizer.lr": 0.05,
    "method.first.optimizer.nesterov": True,
    "method.first.optimizer.warmup_epochs": 1.0,
}
# The flagship's correction for the number of images of each class.
ADJUSTED = {"method.logit_adjustment": 1.0}
# The flagship's training images as well: half of the new ones as the memory would give them back,
# and smoothed labels. What is left between the two is what the flagship has of its own: adjusted
# scores and masked training.
CODED_VIEWS = {"method.codec_view_ratio": 0.5}
VIEWS = CODED_VIEWS | {"method.label_smoothing": 0.1}
# The flagship without masked training: every step sees whole images, and there are fewer of them.
WHOLE = {
    "method.view": "full",
    "method.mask_ratio": 0.75,  # unused; that of runs made before there were windows
    "method.unmasked_ratio": 0.0,
    "method.window_exemplars": 0,
}
# Every row says how far it ends from the flagship, which itself stands beside plain replay.
ROWS = (
    Row("best", "Bilateral MAE, best options", "bimae", printed=(), against="er",
        short="flagship"),
    Row("whole", "Bilateral MAE, best options, whole images", "bimae", changes=WHOLE,
        printed=(), against="best", is_rival=False),
    Row("er", "ER", "er", printed=(), against="best"),
    Row("er-adjusted", "ER with adjusted scores", "er", changes=ADJUSTED, printed=(),
        against="best"),
    Row("er-conv", "ER on the flagship's network", "er", changes=CONVOLUTIONS, printed=(),
        against="best"),
    Row("er-views", "ER on the flagship's network and views", "er", changes=CONVOLUTIONS | VIEWS,
        printed=(), against="best"),
    Row("bic", "BiC", "bic", printed=(), against="best"),
    Row("bic-conv", "BiC on the flagship's network, coded views", "bic",
        changes=CONVOLUTIONS | CODED_VIEWS, printed=(), against="best"),
    # As its trials favoured; docs/methods/bimae-trials.md.
    Row("icarl-views", "iCaRL with coded views", "icarl", changes=CODED_VIEWS, printed=(),
        against="best"),
    Row("icarl-conv", "iCaRL on the flagship's network, coded views", "icarl",
        changes=CONVOLUTIONS | CODED_VIEWS, printed=(), against="best"),
    Row("podnet", "PODNet", "podnet", printed=(), against="best"),
    Row("expandable-views", "DER w/o P with coded views", "expandable", changes=CODED_VIEWS,
        printed=(), against="best"),
    Row("dytox", "DyTox", "dytox", printed=(), against="best"),
    Row("joint", "Joint training", "joint", printed=(), is_rival=False),
    Row("joint-conv", "Joint training on the flagship's network", "joint", changes=CONVOLUTIONS,
        printed=(), is_rival=False),
)  # fmt: skip
# Three different sets of ten classes, one for each seed.
ORDERS = ("default", "dytox-2", "dytox-3")


def column(kib: str) -> Column:
    """A budget under which all have the same codec and sampling."""
    changes = {
        "memory.budget": f"{kib}KiB/class",
        "memory.codec": {"name": "transform", "quality": "auto"},
        "method.first.sampling": "balanced",
    }
    return Column(f"{kib}KiB", f"{kib} KiB per class", "cifar100-mini", changes)


STUDY = Study(
    name="budgets",
    title="Accuracy against bytes of memory",
    source="",
    question="Is the flagship first at every budget, with the same codec and sampling for all?",
    rows=ROWS,
    columns={"smoke": smoke(""), "mini": tuple(column(kib) for kib in _KIB)},
    claims=(
        Claim("ends first at equal bytes", "best", ""),
        Claim("is first on average at equal bytes", "best", "", AVG),
        Claim("ends first by 3 points", "best", "", margin=3.0, columns=_SCARCE),
        Claim("ends first by a point", "best", "", margin=1.0, columns=_AMPLE),
        Claim("ends 3 points above plain replay", "best", "er", margin=3.0, columns=_SCARCE),
        Claim("ends a point above plain replay", "best", "er", margin=1.0, columns=_AMPLE),
        Claim("ends above plain replay on its own network", "best", "er-conv"),
        Claim("ends above plain replay on its network and views", "best", "er-views"),
    ),
    metrics=(AVG, LAST, FORGETTING, NEWEST, TFLOP),
    figures=("budgets",),
    orders=ORDERS,
)
