"""What was tried for the flagship and what became of it, a table of docs/methods/bimae-trials.md.

An arm is one change at one budget, in pairs of trials that differ in it: the changed one first. The
rule, told on that page, keeps it if the mean of its gains in Avg and Last is at least a point and F
rises by at most 2, all averaged over the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from remnant import metrics
from remnant.reports.result_tables import Table
from remnant.runs.run_folder import RunFolder, read_run

MIN_GAIN = 1.0  # points, the mean of Avg and Last
MAX_FORGETTING_RISE = 2.0  # points of F


@dataclass(frozen=True)
class Arm:
    """One change at one budget."""

    tried: str
    link: str  # to where it is told, from docs/methods
    budget: str
    pairs: tuple[tuple[str, str], ...]  # folders below docs/runs without `trial-`: with, without
    decision: str

    def changes(self, runs: Path) -> tuple[float, float, float]:
        """Mean changes of Avg, Last and F."""
        found = [
            changes_between(read_run(runs / f"trial-{base}"), read_run(runs / f"trial-{arm}"))
            for arm, base in self.pairs
        ]
        average, last, forgetting = (mean(column) for column in zip(*found, strict=True))
        return average, last, forgetting


def is_kept_by_rule(average: float, last: float, forgetting: float) -> bool:
    return (average + last) / 2 >= MIN_GAIN and forgetting <= MAX_FORGETTING_RISE


def changes_between(base: RunFolder, arm: RunFolder) -> list[float]:
    """Changes of Avg, Last and F from one run to another, after as many tasks as both have."""
    results = [base.result, arm.result]
    num_tasks = min(len(result.accuracies) for result in results)
    numbers = [
        (
            metrics.average(result.accuracies[:num_tasks]),
            metrics.last(result.accuracies[:num_tasks]),
            metrics.forgetting(result.accuracy_matrix[:num_tasks]),
        )
        for result in results
    ]
    return [after - before for before, after in zip(*numbers, strict=True)]


def arms_table(runs: Path) -> Table:
    """A line for every arm: what it changed, what the rule says and what was decided."""
    rows = []
    for arm in ARMS:
        changes = arm.changes(runs)
        rows.append([
            f"[{arm.tried}]({arm.link})",
            arm.budget,
            arm.decision,
            "keep" if is_kept_by_rule(*changes) else "drop",
            str(len(arm.pairs)),
            *(f"{round(change, 1) + 0.0:+.1f}" for change in changes),  # never -0.0
        ])  # fmt: skip
    headers = ["Tried", "Per class", "Decision", "By the rule", "Pairs", "Avg", "Last", "F"]
    return Table(headers, rows, first_number=4)


def _streams(arm: str, base: str, streams: str) -> tuple[tuple[str, str], ...]:
    """The pair on several streams, whose letter stands in place of `*`."""
    return tuple((arm.replace("*", one), base.replace("*", one)) for one in streams)


_TRANSFORMER = "#what-was-tried-at-mini-scale"
_PRESENTATION = "bimae.md#presentation"
_CONVOLUTIONS = "#what-was-tried-with-convolutions"
_TEACHER = "#a-teacher-for-small-memories"
_SCORES = "#adjusted-scores-the-trials"
_MASKED = "#masked-training"
_DECODED = "#decoding-a-share-of-the-images"
_AT_60 = "#at-60-kib-mean-weights-and-a-teacher"
_FLAGSHIP = "conv-f6-q30-cv5-bal-*"  # at 6 KiB, before adjusted scores
_KEPT, _DROPPED = "**kept**", "dropped"

ARMS = (
    Arm("Compressed whole images instead of compressed quarters", _TRANSFORMER, "60 KiB",
        (("bimae-transform", "bimae-coded"),), _KEPT),
    Arm("Transformer: twice the learning rate", _TRANSFORMER, "60 KiB",
        (("exact-faster", "exact"),),
        "kept in component rows and `-exact`; dropped in `-patches`: with whole images it lost"),
    Arm("Transformer: distillation", _TRANSFORMER, "60 KiB",
        (("distill", "exact"),), "kept in `-patches`"),
    Arm("Transformer: whole images in the last fifth of the steps", _TRANSFORMER, "60 KiB",
        (("distill-unmasked", "distill"),), "kept in `-patches`"),
    Arm("Transformer: in the last two fifths, at twice the rate", _TRANSFORMER, "60 KiB",
        (("distill-unmasked-more-faster", "distill-unmasked"),), _DROPPED),
    Arm("Transformer, compressed quarters: distillation of weight 0.3 instead of 1", _TRANSFORMER,
        "60 KiB", (("coded-distill0.3", "coded-distill1"),),
        "dropped: one weight for both memories of patches"),
    Arm("Transformer: new images shown as exemplars are", _PRESENTATION, "60 KiB",
        _streams("presentation-*-symmetric", "presentation-*-published", "ab"),
        "kept in `-patches`, `-exact` and `full-symmetric`"),
    Arm("Transformer: and exemplars by their stored patches alone", _PRESENTATION, "60 KiB",
        (("presentation-a-exact-only", "presentation-a-symmetric"),), _DROPPED),
    Arm("Transformer: a quarter of the images decoded", _DECODED, "60 KiB",
        _streams("decoded-quarter-*", "decoded-all-*", "ab"), _DROPPED),
    Arm("Transformer: the same, more epochs at equal FLOPs", _DECODED, "60 KiB",
        _streams("decoded-quarter-equal-*", "decoded-all-*", "ab"), _DROPPED),
    Arm("Transformer: the same, twice the epochs in equal time", _DECODED, "60 KiB",
        _streams("decoded-quarter-longer-*", "decoded-all-*", "ab"),
        "dropped: 1.36 times the FLOPs"),
    Arm("Wide, shallow convolutions and their optimiser instead of ResNet-32 (both `er`)",
        _CONVOLUTIONS, "6 KiB",
        (("conv-er-conv-6k-q50-bal-a", "conv-er-r32-6k-q50-balanced-a"),
         ("rival-er-conv-qauto-cv0.5", "rival-er-qauto-cv0.5")),
        "**kept**: ResNet-32 forgets less because it has learned less"),
    Arm("Quality 30 and half of the new images coded, from 50 and none", _CONVOLUTIONS, "6 KiB",
        _streams(_FLAGSHIP, "conv-f6-q50-cv0-bal-*", "ab"), _KEPT),
    Arm("Quality 30 alone, from 50", _CONVOLUTIONS, "6 KiB",
        (("conv-f6-q30-cv0-bal-a4", "conv-f6-q50-cv0-bal-a"),), "kept with coded views only"),
    Arm("All new images coded, from half", _CONVOLUTIONS, "6 KiB",
        (*_streams("conv-f6-q30-cv10-bal-*", _FLAGSHIP, "ab"),
         ("conv-f6-q30-cv10-d", "conv-f6-q30-cv5-d")), _DROPPED),
    Arm("All new images coded, from half", _TEACHER, "1.5 KiB",
        (("conv-f1-q20-cv10-bal-a", "teacher-1-none-a"),), _DROPPED),
    Arm("Half of each batch new, prior corrected", _CONVOLUTIONS, "6 KiB",
        _streams("conv-f6-q30-cv5-share-*", _FLAGSHIP, "ab"), _DROPPED),
    Arm("Half of each batch new, prior corrected; no image coded", _CONVOLUTIONS, "6 KiB",
        (("conv-f6-q50-cv0-share-a4", "conv-f6-q50-cv0-bal-a"),), _DROPPED),
    Arm("Mean weights", _CONVOLUTIONS, "6 KiB",
        (("conv-f6-q30-cv5-ema-a", "conv-f6-q30-cv5-bal-a"),), _DROPPED),
    Arm("Mean weights", _AT_60, "60 KiB",
        _streams("ema-60-*", "windows-60-*", "abd"), _DROPPED),
    Arm("Later tasks at a rate of 0.02", _CONVOLUTIONS, "6 KiB",
        (("conv-f6-q30-cv5-later-a", "conv-f6-q30-cv5-bal-a"),), _DROPPED),
    Arm("A masked side branch with reconstruction, in narrower layers", _CONVOLUTIONS, "6 KiB",
        (("conv-f6-q50-cv0-bal-side20-a4", "conv-f6-q50-cv0-bal-a"),), _DROPPED),
    Arm("Quality 10 instead of 20", _CONVOLUTIONS, "1.5 KiB",
        (("conv-f1-q10-cv5-bal-a", "conv-f1-q20-cv5-bal-a"),), _DROPPED),
    Arm("Quality 30 instead of 20", _CONVOLUTIONS, "1.5 KiB",
        (("conv-f1-q30-cv5-bal-a", "conv-f1-q20-cv5-bal-a"),), _DROPPED),
    Arm("Quarters in units of 8 px instead of whole images", _CONVOLUTIONS, "1.5 KiB",
        (("units8-quarters-a", "scores-1.5-a-adjusted"),), _DROPPED),
    Arm("Halves in units of 8 px instead of whole images", _CONVOLUTIONS, "1.5 KiB",
        (("units8-halves-a", "scores-1.5-a-adjusted"),), _DROPPED),
    Arm("A teacher, weight 1", _TEACHER, "1.5 KiB",
        _streams("teacher-1-weight1-*", "teacher-1-none-*", "ab"), "dropped: weight 3 gains more"),
    Arm("A teacher, weight 3", _TEACHER, "1.5 KiB",
        _streams("teacher-1-weight3-*", "teacher-1-none-*", "abd"),
        "dropped: a quarter more FLOPs, over the limit of 1.05"),
    Arm("A teacher, weight 10", _TEACHER, "1.5 KiB",
        (("teacher-1-weight10-a", "teacher-1-none-a"),), _DROPPED),
    Arm("Aligned classifier rows, beside weight 3", _TEACHER, "1.5 KiB",
        (("teacher-1-weight3-aligned-a", "teacher-1-weight3-a"),), _DROPPED),
    Arm("A teacher, weight 1", _TEACHER, "6 KiB",
        _streams("conv-f6-q30-cv5-distill-*", _FLAGSHIP, "ab"), _DROPPED),
    Arm("A teacher, weight 3", _TEACHER, "6 KiB",
        (*_streams("teacher-6-weight3-*", _FLAGSHIP, "ab"),
         ("teacher-6-weight3-d", "conv-f6-q30-cv5-d")), _DROPPED),
    Arm("A teacher, weight 1", _AT_60, "60 KiB",
        _streams("teacher-60-weight1-*", "windows-60-*", "abde"), _DROPPED),
    Arm("Scores adjusted by the number of images", _SCORES, "1.5 KiB",
        _streams("scores-1.5-*-adjusted", "scores-1.5-*-plain", "abd"), _KEPT),
    Arm("Scores adjusted by the number of images", _SCORES, "6 KiB",
        _streams("scores-6-*-adjusted", "scores-6-*-plain", "abd"),
        "**kept**: one weight for all budgets, decided over both"),
    Arm("Windows", _MASKED, "60 KiB",
        _streams("windows-60-*", "windows-60-*-whole", "abd"), _KEPT),
    Arm("Windows, on other classes afterwards", _AT_60, "60 KiB",
        _streams("windows-60-*", "windows-60-*-whole", "e"), "not used for the decision"),
    Arm("Windows", _MASKED, "6 KiB",
        _streams("windows-6-*", "scores-6-*-adjusted", "abd"),
        "**kept** by the prototype's runs; these, made afterwards, speak against it"),
    Arm("Windows", _MASKED, "1.5 KiB",
        _streams("windows-1.5-*", "scores-1.5-*-adjusted", "abd"), "dropped below 50 exemplars"),
    Arm("Windows and a teacher, weight 3", _MASKED, "1.5 KiB",
        _streams("windows-1.5-*-teacher", "scores-1.5-*-adjusted", "ab"), _DROPPED),
)  # fmt: skip
