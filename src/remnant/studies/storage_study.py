"""Codecs at equal bytes, under plain replay and under Bilateral MAE."""

from remnant.studies.columns import smoke
from remnant.studies.study import Claim, Column, Row, Study

_CODECS = {"raw": "raw", "webp": "WebP", "jpeg": "JPEG", "transform": "transform"}


def _codec(name: str) -> dict[str, str]:
    return {"memory.codec.name": name}


STUDY = Study(
    name="storage",
    title="Storage forms at equal bytes",
    source="",
    question="What is a byte of memory worth under each codec?",
    rows=(
        *(Row(f"er-{name}", f"ER, {label}", "er", changes=_codec(name),
              against="" if name == "raw" else "er-raw")
          for name, label in _CODECS.items()),
        Row("bimae-patches", "Bilateral MAE, quarters", "bimae-exact"),
        Row("bimae-coded", "Bilateral MAE, coded quarters", "bimae-exact",
            changes=_codec("coded-patches"), against="bimae-patches"),
    ),
    columns={
        "smoke": smoke(""),
        "mini": (Column("60KiB", "60 KiB per class", "cifar100-mini"),),
    },
    claims=(
        Claim("coded images beat raw ones", "er-webp", "er-raw"),
        Claim("the codec made for small images beats WebP", "er-transform", "er-webp"),
        Claim("coded quarters beat raw quarters", "bimae-coded", "bimae-patches"),
    ),
)  # fmt: skip
