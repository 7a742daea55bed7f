"""What the JSON files beside published weights say; others write them, so anything may be wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FACTS = ("preprocessor_config.json", "config.json")  # names; what the later one says counts


def read_facts(path: Path) -> dict[str, Any]:
    """The JSON object in a file; {} where it is missing or holds something else."""
    try:
        read = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def facts_beside(path: Path) -> dict[str, Any]:
    """What the files beside one with weights say; {} where there are none."""
    facts: dict[str, Any] = {}
    for name in FACTS:
        facts |= read_facts(path.parent / name)
    return facts


def group_of(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object that an entry holds; {} where there is none."""
    found = facts.get(name)
    return found if isinstance(found, Mapping) else {}
