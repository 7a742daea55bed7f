"""Which packages may import which, as tests hold the code to it and docs/design.md shows it."""

from __future__ import annotations

from pathlib import Path

import remnant

SOURCE = Path(remnant.__file__).parent

# The root holds leaves, which import leaves alone, and `config`, which composes.
LEAVES = {
    "_version", "archives", "cores", "errors", "files", "images", "long_rows", "losses", "metrics",
    "phases", "randomness", "registry", "settings",
}  # fmt: skip
# Which packages a package may import, leaves apart; a dot narrows that to one module.
MATRIX: dict[str, set[str]] = {
    "data": set(),
    "views": set(),
    "models": set(),
    "memory": set(),
    "encoders": {"models"},
    "methods": {"encoders", "memory", "models"},
    "training": {"memory", "methods", "views"},
    "config": {"data", "memory", "methods", "training", "views"},
    "recipes": {"config", "data", "encoders", "memory", "methods", "views"},
    "reports": {"runs.drawings", "runs.events", "runs.run_folder"},
    "planning": {"config", "data", "memory", "methods", "training"},
    "terminal": {"reports", "training"},
    "runs": {
        "config", "data", "methods", "planning", "recipes", "reports", "terminal", "training",
    },
    "studies": {
        "config", "data", "memory", "methods", "planning", "recipes", "reports", "runs", "training",
    },
    "learner": {
        "config", "data", "encoders", "memory", "methods", "reports", "runs", "terminal",
        "training", "views",
    },
    "probe": {"config", "data", "memory", "methods", "runs", "training", "views"},
    "serving": {"data", "learner", "memory", "terminal"},
    "bench": {"memory", "methods", "models", "planning", "runs", "training", "views"},
    "cli": {
        "bench", "config", "data", "learner", "memory", "methods", "planning", "probe", "recipes",
        "reports", "runs", "serving", "studies", "terminal", "training",
    },
    "testing": {"memory", "methods", "training", "views"},
    "__init__": {"data", "learner", "memory", "methods", "recipes", "runs"},
    "__main__": {"cli"},
}  # fmt: skip
