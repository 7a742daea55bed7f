"""docs/reference/settings.md: every setting that is not of one method or codec alone."""

from __future__ import annotations

import re
import textwrap

from pydantic import BaseModel

from benchmarks.reference.setting_tables import first_line, setting_tables
from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.data.stream import StreamConfig
from remnant.encoders.encoder_config import EncoderConfig
from remnant.learner import Learner
from remnant.learner.learner_state import LearnerConfig, LearnerParameters
from remnant.memory import CodecConfig, MemoryConfig
from remnant.methods import MethodConfig
from remnant.methods.backbones import BackboneConfig
from remnant.methods.distillation import DistillationConfig
from remnant.phases import OptimizerConfig, Schedule
from remnant.training.processes import TrainingConfig
from remnant.views.augment import AugmentConfig

# Title of a section, the config that it shows, and how its settings are written there.
SECTIONS: tuple[tuple[str, type[BaseModel], str], ...] = (
    ("data", DataConfig, "data."),
    ("stream", StreamConfig, "stream."),
    ("augment", AugmentConfig, "augment."),
    ("memory", MemoryConfig, "memory."),
    ("method", MethodConfig, "method."),
    ("schedule", Schedule, "method.first."),
    ("optimizer", OptimizerConfig, "method.first.optimizer."),
    ("backbone", BackboneConfig, "method.backbone."),
    ("distillation", DistillationConfig, "method.distillation."),
    ("encoder", EncoderConfig, "method.encoder."),
    ("training", TrainingConfig, "training."),
)
_NOTES = {
    "method": "Every method has these, and its own: see [all methods](methods.md).",
    "memory": "The settings of each codec are on [their page](codecs.md).",
    "schedule": "A phase of training: `method.first`, `method.later`, and the extra phases of some "
    "methods, such as `method.balanced_tuning`.",
    "optimizer": "In every schedule.",
    "backbone": "For methods that have a `method.backbone`.",
    "distillation": "For methods that have a `method.distillation`. [kd] Hinton et al., 2015; "
    "[ucir] Hou et al., CVPR 2019; [bic] Wu et al., CVPR 2019.",
    "encoder": "Of `ncm` and `ranpac`. Normally nobody writes these: they are read from the "
    "encoder that `name` or `remnant learn --encoder` names.",
}
_INTRO = """# Settings

Every setting of a run, as `remnant run RECIPE --set KEY=VALUE` takes it and `config.json` holds it:

```
remnant show digits-er                                     # all settings of a recipe
remnant run digits-er --set method.first.epochs=3 --set memory.budget=2KiB/class
```

A value is JSON or plain text; `none` stands for JSON's `null`. A recipe sets what it needs, so the
default of a setting is not always what a run uses. Where the source code says where a default comes
from, the last column repeats it: a paper by its key, such as [bic], a toolbox (PyCIL, FACIL,
mammoth), or `Chosen:` with the reason. All of it is also a JSON schema: `remnant schema config`.
"""


def links_from(page: str) -> dict[type[BaseModel], str]:
    """Where each shared group of settings is explained, as a link on `page`."""
    target = "" if page == "settings.md" else "settings.md"
    links: dict[type[BaseModel], str] = {kind: f"{target}#{name}" for name, kind, _ in SECTIONS}
    return links | {CodecConfig: f"{'' if page == 'codecs.md' else 'codecs.md'}#settings"}


def settings_page() -> str:
    links = links_from("settings.md")
    parts = [_INTRO, f"## run\n\n{first_line(RunConfig)}\n", setting_tables(RunConfig, "", links)]
    for title, kind, prefix in SECTIONS:
        notes = "\n\n".join(filter(None, (first_line(kind), _NOTES.get(title, ""))))
        parts += [f"## {title}\n\n{notes}\n", setting_tables(kind, prefix, links)]
    parts += [
        "## learner\n\nThe parameters of `remnant.Learner` and the options of `remnant learn`. "
        "None means that the value is chosen, and the first line of output says what was chosen.\n",
        setting_tables(LearnerParameters, "", {}, about=_arguments(Learner)),
        f"## store\n\nWhat a store holds of its settings. {first_line(LearnerConfig)} It is also "
        "`settings` in the header of the [file](files.md#a-store).\n",
        setting_tables(LearnerConfig, "", links),
    ]
    return "\n".join(parts)


def _arguments(documented: type) -> dict[str, str]:
    """What the `Args:` of a docstring say of each argument."""
    text = textwrap.dedent((documented.__doc__ or "").partition("Args:\n")[2])
    section = re.split(r"\n    \w+:\n|\n\S", text)[0]
    found = re.findall(r"^ *(\w+): (.*(?:\n {8,}.*)*)", section, flags=re.MULTILINE)
    return {name: re.sub(r"\s+", " ", words) for name, words in found}
