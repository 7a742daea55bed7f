"""Presets of methods on a pretrained encoder.

Their numbers never share a table with those of networks that are trained from scratch: ImageNet has
shown the encoder most of what these data sets contain.
"""

from remnant.encoders import describe_encoder
from remnant.methods.base import MethodConfig
from remnant.methods.frozen_features import DEFAULT_ENCODER
from remnant.methods.ncm import NCMConfig
from remnant.methods.ranpac import RanPACConfig
from remnant.methods.tuned import TunedConfig
from remnant.recipes.presets import Preset, Setup
from remnant.recipes.protocols import LITE, SMALL

_ABOUT = "on the encoder efficientnet-lite0, pretrained on ImageNet"
# Chosen: small images are enlarged by half as much as the encoder was made for, at a quarter of the
# time.
_SMALLER = describe_encoder(DEFAULT_ENCODER).model_copy(update={"image_size": 112})


def _preset(config: type[MethodConfig]) -> Preset:
    name = config.model_fields["name"].default
    values = {"name": name, "encoder": _SMALLER.model_dump()}
    if config is TunedConfig:  # trains as long as the protocol says
        first = TunedConfig().first.stretched(30)
        values["first"] = first.model_copy(update={"batch_size": 64, "steps_from": "new"})
    setup = Setup(config.parse(values), about=_ABOUT)
    return Preset(name, (*SMALL, *LITE), {"digits": setup, "mini": setup})


PRESETS = (_preset(NCMConfig), _preset(RanPACConfig), _preset(TunedConfig))
