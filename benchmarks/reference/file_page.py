"""docs/reference/files.md: every file of a run folder, of a study and of a store."""

from __future__ import annotations

from typing import Any

from benchmarks.reference.setting_page import links_from
from benchmarks.reference.setting_tables import setting_tables, table
from remnant.learner.receipts import Receipt
from remnant.learner.store import VERSION as STORE_VERSION
from remnant.learner.store import StoreHeader
from remnant.memory.memory_file import VERSION as MEMORY_VERSION
from remnant.memory.memory_file import ArchiveHeader
from remnant.runs import run_folder
from remnant.runs.drawings import DRAWINGS
from remnant.runs.events import EVENTS
from remnant.runs.run_folder import RunResult
from remnant.studies.job_book import JOBS_FILE, JobBook
from remnant.studies.study_folder import STUDY_FILE, StudyRequest

# In the order in which a run writes them.
RUN_FILES = {
    run_folder.CONFIG: "All [settings](settings.md), resolved; `remnant run DIR/config.json` runs "
    "it again. Written before anything slow starts. `remnant schema config` prints its schema.",
    run_folder.ENVIRONMENT: "[Versions and machine](#environmentjson).",
    EVENTS: "[What happened](#eventsjsonl), a line each, while it happens.",
    f"{run_folder.CHECKPOINTS}/task-NNN[-phase-N-step-N].safetensors": "What `remnant resume` "
    "starts from: network, optimiser and memory. The last two points stay.",
    f"{run_folder.PREDICTIONS}/task-NNN.safetensors": "The five best labels of every test image "
    "after a task. All accuracies come from these.",
    f"{run_folder.RECONSTRUCTIONS}/task-NNN.safetensors": "Test images redrawn after a task, by "
    "methods that draw, and how well.",
    f"{DRAWINGS}/task-NNN.safetensors": "One test image of each of a few tasks, redrawn after "
    "each of these tasks.",
    run_folder.RESULT: "[The numbers](#resultjson), after every task. `remnant schema result` "
    "prints its schema.",
    run_folder.MEMORY: "[The exemplars](#memorysafetensors) after the last task.",
    run_folder.FEATURES: "The features of the test images after the last task.",
    f"{run_folder.FIGURES}/": f"Charts as SVG, pictures as PNG; `{run_folder.MEMORY_PICTURE}` "
    "shows exemplars.",
    run_folder.REPORT: "The page of the run, with its figures inside.",
    "tensorboard/": "What TensorBoard reads, with `--track tensorboard`.",
}
ENVIRONMENT = {
    "remnant": "version of remnant",
    "commit": "of the source, `-dirty` if it was changed; null for an installed package",
    "python": "version of Python",
    "torch": "version of torch",
    "packages": "versions of the packages that results depend on, by name",
    "platform": "operating system",
    "processor": "name of the processor",
    "cores": "processor cores of the machine",
    "threads": "that the run used in each process; a resumed run uses as many",
    "accelerators": "names of the GPUs",
    "acceleration": "device, precision and compiler that were used",
    "started": "UTC",
}
EVENT_LINES = {
    "task_begin": "`task`, `class_names`",
    "step": "`task`, `phase`, `epoch`, `step`, `num_steps`, `loss`, `terms`, `lr`, "
    "`images_per_second`; every `training.log_every_steps` steps, and the last of a phase",
    "task_end": "`task`, `accuracy`, `accuracies` (of each task), `seconds`, `memory_bytes`",
}
ARRAYS = {
    run_folder.PREDICTIONS: {
        "top5": "int32 [N, 5], labels, the best first",
        "labels": "int32 [N]",
    },
    run_folder.FEATURES: {"features": "float32 [N, D]", "labels": "int64 [N]"},
    run_folder.RECONSTRUCTIONS: {
        "original": "uint8 [n, H, W, C], the images themselves",
        "both, main, detail ...": "uint8 [n, H, W, C], as each branch redraws them",
    },
    DRAWINGS: {"original, visible, both ...": "uint8 [n, H, W, C], at most 64 px a side"},
    run_folder.MEMORY: {
        "labels": "int64 [K], the classes that have exemplars",
        "counts": "int64 [K], exemplars of each",
        "payload": "uint8, the coded images one after another: class by class, best first",
        "positions": "uint8, which patches are known, if the codec stores some of them",
        "lengths": "uint16 or uint32, bytes of each payload, if they vary",
        "tables": "uint8, what a codec stores once for all exemplars",
        "side": "uint8, what a method keeps with an exemplar, such as its scores",
        "side_bytes": "int64 [K], bytes of side data of each exemplar of a class",
    },
}
_INTRO = """# Files and schemas

No file is a pickle. JSON files are plain; arrays are
[safetensors](https://huggingface.co/docs/safetensors), readable by any tool for it. Every
safetensors file of remnant has one metadata key, `remnant`: JSON with `format`, `version`,
`metadata` and `digest`, a SHA-256 of all else, which is checked whenever the file is read. Files
are written beside their place, synced, and renamed, so that none is ever half-written.

```
remnant schema config > config.schema.json    # of config.json; editors complete and check with it
remnant schema result > result.schema.json    # of result.json
remnant schema store > store.schema.json      # of the header of a store
```
"""


def files_page() -> str:
    links: Any = links_from("files.md")
    document = [
        _INTRO,
        "## A run folder\n",
        table(("file", "what it holds"), _rows(RUN_FILES)),
        "A folder of several runs (`--seeds`, `--grid`) has a run folder for each, the comparison "
        f"as `{run_folder.REPORT}`, and `{run_folder.SWEEP}`: by name, the config of every run.\n",
        f"### {run_folder.RESULT}\n\nAccuracies are percent; rows of the matrix are tasks. A "
        "reader must put up with entries that it does not know: newer versions add some.\n",
        _fields(RunResult),
        f"### {run_folder.ENVIRONMENT}\n",
        table(("entry", "meaning"), _rows(ENVIRONMENT)),
        f"### {EVENTS}\n\nOne JSON object per line. A line that a killed process cut off is "
        "skipped.\n",
        table(("`event`", "other entries"), _rows(EVENT_LINES)),
        "### Arrays\n",
        table(("file", "array", "type and shape"), _array_rows()),
        f"### {run_folder.MEMORY}\n\nFormat `memory`, version {MEMORY_VERSION}. Bytes and never "
        "paths, no times: the same run gives the same bytes. Its metadata:\n",
        setting_tables(ArchiveHeader, "", links),
        f"## A study\n\n`remnant reproduce` and `remnant contest` write run folders, pages, and "
        f"`{STUDY_FILE}`, from which `remnant study DIR` writes the pages again:\n",
        _fields(StudyRequest),
        f"On a cluster, `{JOBS_FILE}` says which job was given which run:\n",
        _fields(JobBook),
        f"## A store\n\n`NAME.remnant`, one safetensors file: format `store`, version "
        f"{STORE_VERSION}, which changes only with remnant's major number. Its metadata, which "
        "`remnant schema store` describes whole:\n",
        setting_tables(StoreHeader, "", links | {_settings_kind(): "settings.md#store"}),
        "Its arrays are every weight of the network by name, and under `memory/` those of a memory "
        "file, as above. Beside a store there may be:\n",
        table(("file", "what it holds"), _rows({
            "NAME.remnant.work/": "Checkpoints of an update under way, and the lock of its "
            "process; gone when the update is done.",
            "NAME.remnant.before": "The store before the last update, for `remnant undo`.",
        })),
        "### Receipt\n\n`NAME.remnant.receipt-1.json`, which `remnant forget` writes:\n",
        _fields(Receipt),
    ]  # fmt: skip
    return "\n".join(document)


def _settings_kind() -> Any:
    return StoreHeader.model_fields["settings"].annotation


def _rows(texts: dict[str, str]) -> list[tuple[str, ...]]:
    return [(f"`{name}`", text) for name, text in texts.items()]


def _array_rows() -> list[tuple[str, ...]]:
    return [
        (f"`{file}`", f"`{name}`", text)
        for file, arrays in ARRAYS.items()
        for name, text in arrays.items()
    ]


def _fields(model: Any) -> str:
    return setting_tables(model, "", {}).replace(
        "| setting | type and range | default | meaning, and source of the default |",
        "| entry | type and range | if missing | meaning |",
    )
