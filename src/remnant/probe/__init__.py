"""Whether a network tells old classes from new ones by how images look: cues, measured causally."""

from remnant.probe.cues import CueTable, LookResult, probe_run

__all__ = ["CueTable", "LookResult", "probe_run"]
