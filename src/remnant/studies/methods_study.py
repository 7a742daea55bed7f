"""Every method of the package, as published, with the two ends of the scale."""

from remnant.studies.cifar100_study import ROWS as CIFAR100_ROWS
from remnant.studies.columns import smoke
from remnant.studies.memory_efficient_study import STUDY as MEMORY_EFFICIENT
from remnant.studies.study import AVG, DENSITY, FORGETTING, LAST, LEDGER, Column, Row, Study

_NEW = {"method.softmax_over": "new"}
_SEEN = {"method.softmax_over": "seen"}
_SYMMETRIC = {"method.presentation": "symmetric"}

STUDY = Study(
    name="methods",
    title="Every method",
    source="",
    question="How do all methods compare under one protocol, each as published?",
    rows=(
        # A softmax over new classes alone never lets old and new scores meet: both, for all three.
        Row("finetune", "Fine-tuning, over all classes", "finetune"),
        Row("finetune-new", "Fine-tuning, over new classes", "finetune", changes=_NEW),
        Row("ewc-seen", "EWC, over all classes", "ewc", changes=_SEEN),
        Row("ewc", "EWC, over new classes", "ewc"),
        Row("lwf-seen", "LwF, over all classes", "lwf", changes=_SEEN),
        Row("lwf", "LwF, over new classes", "lwf"),
        Row("pass", "PASS", "pass"),
        Row("er", "ER", "er"),
        Row("derpp", "DER++", "derpp"),
        Row("gem", "GEM", "gem"),
        Row("a-gem", "A-GEM", "a-gem"),
        Row("wa", "WA", "wa"),
        *CIFAR100_ROWS[:-1],
        Row("simple-expandable", "Simple-DER", "simple-expandable"),
        Row("tagfex", "TagFex", "tagfex"),
        Row("dytox-plus", "DyTox+", "dytox-plus"),
        Row("dytox-masked", "DyTox, masked exemplars", "dytox-masked"),
        Row(
            "dytox-masked-symmetric",
            "DyTox, masked exemplars, symmetric",
            "dytox-masked",
            changes=_SYMMETRIC,
            printed=(),
        ),
        Row(
            "dytox-masked-symmetric-tokens",
            "DyTox, masked exemplars, symmetric, as tokens",
            "dytox-masked",
            changes=_SYMMETRIC | {"method.masked_input": "tokens"},
            printed=(),
        ),
        *MEMORY_EFFICIENT.rows[:-1],
        CIFAR100_ROWS[-1],
        Row("exact", "Bilateral MAE, half of the views exact", "bimae-exact"),
        Row("joint", "Joint training", "joint"),
    ),
    columns={
        "smoke": smoke("cifar100-10"),
        "mini": (Column("published", "as published", "cifar100-mini", {}, "cifar100-10"),),
    },
    metrics=(AVG, LAST, FORGETTING, DENSITY, *LEDGER),
    figures=("density",),  # one line for each of so many systems could not be told apart
    note=(
        "Fine-tuning, EWC and LwF take their softmax over all classes or over new ones. EWC has "
        "PyCIL's penalty, which at mini scale holds hardly any weight; larger ones forget "
        "less and end no higher, see docs/methods/ewc.md. Joint training learns all classes at "
        "once. π is the mean cosine within a class over that between classes. Memory: exemplars "
        "with all that is stored of them. Other state: what else is carried from task to task, "
        "such as a generator or means of classes. A teacher, as large as the network, is held "
        "while a task is learned but not carried: it is copied from the network when the task "
        "begins. The exemplars of DyTox, masked, are filled with one colour, which marks old "
        "classes; symmetric, new images are masked equally often, as images or as tokens."
    ),
)
