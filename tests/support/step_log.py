"""A watcher that keeps what every step reports."""

from __future__ import annotations

from remnant.phases import StepReport


class Log:
    """All steps of a run."""

    def __init__(self) -> None:
        self.reports: list[StepReport] = []

    def on_step(self, report: StepReport) -> None:
        self.reports.append(report)

    def terms(self, task: int, phase: str) -> list[set[str]]:
        chosen = [one for one in self.reports if (one.task, one.phase) == (task, phase)]
        return [set(one.terms) for one in chosen]
