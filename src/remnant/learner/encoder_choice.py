"""Which method a learner starts with, and on which encoder: a pretrained one where one helps."""

from __future__ import annotations

from dataclasses import dataclass

from remnant.encoders import lite0
from remnant.errors import InputError, how_to_install
from remnant.learner.learner_state import LearnerParameters
from remnant.methods import METHODS

SCRATCH = "none"  # as `encoder`: train a network from scratch, whatever is installed
# Chosen: below this, photographs have too little detail for a network that was made for 224 px.
_SMALLEST = 64
_ON_ENCODER, _FROM_SCRATCH = "ranpac", "bimae"


@dataclass(frozen=True)
class Choice:
    """A method and an encoder by name, and why they were chosen."""

    method: str
    encoder: str | None  # None: the method trains a network of its own
    why: str


def choose_encoder(parameters: LearnerParameters, shorter_side: int) -> Choice:
    """What the user gave, or what suits images of this size.

    Raises:
        InputError: Method and encoder do not go together, or there is no such method.
    """
    method, encoder = parameters.method, parameters.encoder
    if method is not None and not takes_encoder(method):
        if encoder not in (None, SCRATCH):
            raise InputError(
                f"{method} trains a network of its own and takes no encoder; got {encoder!r}. "
                f"Leave one of them out, or use {_ON_ENCODER}."
            )
        return Choice(method, None, "as given")
    if encoder == SCRATCH:
        if method is not None:
            raise InputError(f"{method} needs an encoder; got none. Leave --encoder out.")
        return Choice(_FROM_SCRATCH, None, "as given")
    if encoder is not None or method is not None:
        return Choice(method or _ON_ENCODER, encoder or lite0.NAME, "as given")
    if shorter_side < _SMALLEST:
        return Choice(_FROM_SCRATCH, None, f"images of {shorter_side} px are small")
    if not lite0.is_installed():
        why = f"no pretrained encoder is installed. {how_to_install('pretrained')}"
        return Choice(_FROM_SCRATCH, None, why)
    return Choice(_ON_ENCODER, lite0.NAME, f"images of {shorter_side} px are photographs")


def takes_encoder(method: str) -> bool:
    return "encoder" in METHODS.find(method, "method").Config.model_fields
