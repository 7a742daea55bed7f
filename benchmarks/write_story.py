"""Draw the pictures of docs/story.md: `python -m benchmarks.write_story`.

Three charts come from the runs kept in docs/runs, and so does the number of verdicts on the page.
The strip of what is stored needs a run whose memory holds patches, and its data:

    remnant run cifar100-mini-bimae-patches --set stream.num_classes=2 --set stream.num_tasks=1 \\
        --set data.images_per_class=100 --set method.first.epochs=10 \\
        --set method.first.batch_size=16 --set method.has_detail_branch=false --out runs/strip
    python -m benchmarks.write_story --strip runs/strip [--data-root DIR]
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from benchmarks.write_results import gather
from remnant.config import load_config
from remnant.data import load_dataset
from remnant.files import write_text
from remnant.images import patches_to_pixels
from remnant.learner import Learner
from remnant.reports.charts.canvas import INK, MARKERS, SERIES, on_white, put_legend_above, render
from remnant.reports.charts.run_charts import set_accuracy_axes
from remnant.reports.sheets.tile_sheet import Row, Tile, draw_sheet
from remnant.studies import find_study
from remnant.studies.evidence import Judgement

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "figures"
PAGE = DOCS / "story.md"
_VERDICTS = re.compile(r"(<!-- verdicts -->).*?(<!-- / -->)", re.DOTALL)
# The tables of the paper with claims, as on docs/claims.md.
_STUDIES = "cifar100 imagenet-subset imagenet-full components mask-ratio detail-domain fine-ratio "
_STUDIES += "model-size buffer memory-efficient density"
_COLOURS = {"agrees": SERIES[2], "opposite": SERIES[1], "undecided": SERIES[7]}
_FORGETTING = {
    "keeps nothing (fine-tuning)": "cifar100-mini-finetune",
    "20 raw images per class (replay)": "cifar100-mini-er",
    "the same bytes as WebP (replay)": "cifar100-mini-er-webp",
    "the same bytes, best options": "cifar100-mini-bimae",
}
# Name in the chart, run, and where the name stands beside its point.
_BYTES = (
    ("replay, raw images", "cifar100-mini-er", "left"),
    ("iCaRL, raw images", "cifar100-mini-icarl", "left"),
    ("Bilateral MAE as published, quarters", "cifar100-mini-bimae-full", "left"),
    ("DER without pruning, raw images", "cifar100-mini-expandable", "left"),
    ("replay, WebP", "cifar100-mini-er-webp", "left"),
    ("replay, transform", "cifar100-mini-er-6KiB", "right"),
    ("best options, transform", "cifar100-mini-bimae-6KiB", "right"),
    ("best options, transform", "cifar100-mini-bimae", "below"),
)


def result(name: str) -> dict[str, Any]:
    return json.loads((DOCS / "runs" / name / "result.json").read_bytes())


# ----------------------------------------------------------------------------------------- charts


def draw_forgetting(axes: Axes) -> None:
    """Accuracy on the first two classes while others are learned."""
    for index, (label, name) in enumerate(_FORGETTING.items()):
        found = result(name)
        seen = np.cumsum(found["task_sizes"]).tolist()
        first = [row[0] for row in found["accuracy_matrix"]]
        axes.plot(seen, first, color=SERIES[index], marker=MARKERS[index], label=label)
    set_accuracy_axes(axes, seen)
    axes.set_ylabel("right on the first two classes (%)")
    put_legend_above(axes, columns=1)


def draw_bytes(axes: Axes) -> None:
    """Accuracy on all classes at the end against the bytes of memory per class."""
    labels = list(dict.fromkeys(label for label, _, _ in _BYTES))
    for label, name, side in _BYTES:
        found = result(name)
        per_class = found["memory"]["used_bytes"] / sum(found["task_sizes"]) / 1024
        last = found["last_accuracy"]
        axes.plot(per_class, last, "o", color=SERIES[labels.index(label)], markersize=6)
        axes.annotate(
            label, (per_class, last), (8 if side == "right" else -8, 1),
            textcoords="offset points", va="top" if side == "below" else "bottom",
            ha="left" if side == "right" else "right", fontsize=7.5,
        )  # fmt: skip
    for label, name in (("all data at once", "cifar100-mini-joint-1.5KiB-conv"),
                        ("no memory", "cifar100-mini-finetune")):  # fmt: skip
        last = result(name)["last_accuracy"]
        axes.axhline(last, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.annotate(label, (1.7, last), (0, -3), textcoords="offset points", fontsize=7.5,
                      va="top")  # fmt: skip
    axes.set(xscale="log", xlim=(1.6, 90), ylim=(0, 100))
    axes.set_xticks([2, 6, 20, 60], ["2 KiB", "6 KiB", "20 KiB", "60 KiB"])
    axes.minorticks_off()
    axes.set(xlabel="memory used per class", ylabel="right on all ten classes (%)")


def draw_claims(axes: Axes) -> None:
    """Reported and measured difference of every claim that was measured."""
    found = [one for one in judgements() if one[1].measured is not None][::-1]
    for height, (_, one) in enumerate(found):
        assert one.measured is not None
        colour = _COLOURS[one.verdict]
        if one.printed is not None:
            axes.plot(one.printed, height, "D", color=INK, markerfacecolor="none", markersize=5)
        margin = one.measured.margin or 0
        axes.errorbar(one.measured.mean, height, xerr=margin, fmt="o", color=colour, capsize=2.5)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(found)), [f"{source}: {one.claim.text}" for source, one in found])
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel("points ahead")
    axes.plot([], [], "D", color=INK, markerfacecolor="none", markersize=5, label="reported")
    for verdict, colour in _COLOURS.items():
        axes.plot([], [], "o", color=colour, label=verdict)
    put_legend_above(axes, columns=4)


def judgements() -> list[tuple[str, Judgement]]:
    """Every claim of the paper at mini scale, with the table it comes from."""
    found = []
    for name in _STUDIES.split():
        source = find_study(name).source.replace(" and its figure", "")
        found += [(source, one) for one in gather(name, "mini").judgements()]
    return found


def fill_verdicts(text: str) -> str:
    """The page with the number of claims per verdict."""
    total = sum(len(find_study(name).claims) for name in _STUDIES.split())
    measured = [(source, one) for source, one in judgements() if one.measured is not None]
    claims = {(source, one.claim.text) for source, one in measured}
    counts = Counter(one.verdict for _, one in measured)
    sentence = (
        f"{len(claims)} of {total} claims have been measured, some with both presentations: of "
        f"these {len(measured)} comparisons {counts['agrees']} agree with the paper, "
        f"{counts['opposite']} came out opposite, and {counts['undecided']} are undecided"
    )
    return _VERDICTS.sub(rf"\g<1>{sentence}\g<2>", text)


# ------------------------------------------------------------------------------------------ strip


def draw_strip(folder: Path, data_root: Path | None) -> bytes:
    """Photo, stored patches with their bytes, and completion of a few exemplars."""
    config = load_config(folder / "config.json")
    data = config.data if data_root is None else config.data.model_copy(update={"root": data_root})
    train = load_dataset(data).train
    images = train.images.read(torch.arange(len(train)))
    learner = Learner.from_run(folder)
    rows = []
    for name in learner.classes_[:2]:
        kept = learner.remembered(name)
        assert kept.is_known is not None, "the memory of the run must hold patches"
        for rank in range(2):
            stored = kept.stored[rank]
            shown = patches_to_pixels(kept.is_known[rank], stored.shape[:2])[..., None]
            is_same = ((np.asarray(images) == stored) | ~shown).all(axis=(1, 2, 3))
            photo = np.asarray(images)[is_same][0]
            rows.append(
                Row([
                    Tile(photo, f"{photo.nbytes:,} bytes"),
                    Tile(np.where(shown, stored, np.uint8(128)), f"{kept.num_bytes[rank]:,} bytes"),
                    Tile(kept.completed[rank], str(name)),
                ])
            )  # fmt: skip
    return draw_sheet([("photo", 1), ("stored", 1), ("completed", 1)], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--strip", type=Path, help="a run whose memory holds patches")
    parser.add_argument("--data-root", type=Path, help="where its data are")
    arguments = parser.parse_args()
    for name, draw, height in (
        ("forgetting", draw_forgetting, 3.6),
        ("bytes", draw_bytes, 3.8),
        ("claims", draw_claims, 4.6),
    ):
        write_text(FIGURES / f"story-{name}.svg", on_white(render(draw, height)))
    if arguments.strip is not None:
        picture = draw_strip(arguments.strip, arguments.data_root)
        (FIGURES / "story-stored.png").write_bytes(picture)
    PAGE.write_text(fill_verdicts(PAGE.read_text()))


if __name__ == "__main__":
    main()
