"""Pretrained encoders: networks that turn an image into features and are never trained here."""

from remnant.encoders.encoder_config import EncoderConfig
from remnant.encoders.encoder_sources import describe_encoder, read_weights
from remnant.encoders.frozen_encoder import FrozenEncoder

__all__ = ["EncoderConfig", "FrozenEncoder", "describe_encoder", "read_weights"]
