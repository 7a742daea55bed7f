"""ONNX files, and a hub that answers on this machine."""

from __future__ import annotations

import json
import socket
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import safetensors.torch
import torch
from onnx import TensorProto, helper

from remnant.encoders import FrozenEncoder, describe_encoder, encoder_sources, read_weights
from remnant.encoders.onnx_network import ONNXNetwork
from remnant.errors import InputError
from tests.support.vit_weights import as_timm, make_weights


def write_mean_colour(path: Path, shape: list[Any]) -> None:
    """A model whose features are the mean colour of an image."""
    node = helper.make_node("GlobalAveragePool", ["images"], ["features"])
    graph = helper.make_graph(
        [node],
        "mean-colour",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, 3, 1, 1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def test_an_onnx_file_is_an_encoder(tmp_path: Path) -> None:
    path = tmp_path / "colours.onnx"
    write_mean_colour(path, ["n", 3, 32, 32])
    config = describe_encoder(str(path))
    assert (config.kind, config.image_size, config.width) == ("onnx", 32, 3)
    encoder = FrozenEncoder(config).eval()
    encoder.load(read_weights(config), config.mean, config.std)
    views = torch.randn(4, 3, 32, 32)
    torch.testing.assert_close(encoder(views), views.mean(dim=(2, 3)), rtol=1e-4, atol=1e-5)
    again = FrozenEncoder(config)
    again.load_state_dict(encoder.state_dict())  # as a store does it
    assert torch.equal(again(views), encoder(views))


@pytest.mark.parametrize("shape", [["n", 1, 32, 32], ["n", 3]])
def test_an_onnx_file_with_other_inputs_is_told(shape: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    write_mean_colour(path, shape)
    with pytest.raises(InputError):
        describe_encoder(str(path))


@pytest.mark.parametrize("side", [4, 4096])
def test_a_side_that_no_image_may_have_is_told_before_one_is_made(
    side: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_sources, "run_session", lambda *_: pytest.fail("was run"))
    path = tmp_path / "odd.onnx"
    write_mean_colour(path, ["n", 3, side, side])
    with pytest.raises(InputError, match=rf"odd\.onnx cannot .*: image_size must .*; got {side}\."):
        describe_encoder(str(path))


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"image_mean": 0.5}, "mean must be a list"),
        ({"image_mean": [0.5]}, "mean.1 must be given"),
        ({"image_std": [0.5, None, 0.5]}, "std.1 must be a number; got null"),
        ({"image_std": [0.1, 0.2, 0.3, 0.4]}, "std must have at most 3 entries"),
        ({"pretrained_cfg": {"std": 0.5}}, "std must be a list"),
    ],
)
def test_wrong_colours_are_told_by_their_name(
    facts: dict[str, Any], told: str, tmp_path: Path
) -> None:
    write_mean_colour(tmp_path / "model.onnx", ["n", 3, 32, 32])
    (tmp_path / "config.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match=rf"model\.onnx cannot be used as an encoder: {told}"):
        describe_encoder(str(tmp_path / "model.onnx"))


def test_a_group_of_facts_may_be_empty(tmp_path: Path) -> None:
    write_mean_colour(tmp_path / "model.onnx", ["n", 3, 32, 32])
    facts = {"pretrained_cfg": None, "image_mean": [0.1, 0.2, 0.3]}
    (tmp_path / "config.json").write_text(json.dumps(facts))
    assert describe_encoder(str(tmp_path / "model.onnx")).mean == (0.1, 0.2, 0.3)


def test_a_damaged_onnx_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "damaged.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(InputError, match="is not a whole ONNX model"):
        describe_encoder(str(path))


# --------------------------------------------------------------------- models that mean no good


def outside(name: str = "secret") -> onnx.TensorProto:
    """A tensor whose bytes are those of another file."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[3])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="secret.bin")
    return tensor


def in_an_initializer(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(outside())


def in_a_sparse_initializer(model: onnx.ModelProto) -> None:
    model.graph.sparse_initializer.add().values.CopyFrom(outside())


def in_an_attribute(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Constant", [], ["c"], value=outside()))


def in_a_list_of_tensors(model: onnx.ModelProto) -> None:
    attribute = onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSORS)
    attribute.tensors.append(outside())
    model.graph.node[0].attribute.append(attribute)


def in_a_branch(model: onnx.ModelProto) -> None:
    branch = helper.make_graph([], "branch", [], [], [outside()])
    model.graph.node.append(
        helper.make_node("If", ["images"], ["c"], then_branch=branch, else_branch=branch)
    )


def in_a_function(model: onnx.ModelProto) -> None:
    node = helper.make_node("Constant", [], ["c"], value=outside())
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("own", "F", [], ["c"], [node], opsets))


def in_training_info(model: onnx.ModelProto) -> None:
    model.training_info.add().algorithm.initializer.append(outside())


def only_marked(model: onnx.ModelProto) -> None:
    tensor = outside()
    del tensor.external_data[:]
    model.graph.initializer.append(tensor)


def only_named(model: onnx.ModelProto) -> None:
    tensor = outside()
    tensor.data_location = TensorProto.DEFAULT
    model.graph.initializer.append(tensor)


@pytest.mark.parametrize(
    "hide",
    [
        in_an_initializer,
        in_a_sparse_initializer,
        in_an_attribute,
        in_a_list_of_tensors,
        in_a_branch,
        in_a_function,
        in_training_info,
        only_marked,
        only_named,
    ],
)
def test_a_model_that_refers_to_other_files_is_refused(
    hide: Callable[[onnx.ModelProto], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    monkeypatch.chdir(tmp_path)
    write_mean_colour(tmp_path / "model.onnx", ["n", 3, 32, 32])
    model = onnx.load(tmp_path / "model.onnx")
    hide(model)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="refers to other files"):
        describe_encoder(str(tmp_path / "model.onnx"))
    # In a store the bytes of the model are a weight.
    network = ONNXNetwork(len(model.SerializeToString()), 3)
    network.content = torch.frombuffer(bytearray(model.SerializeToString()), dtype=torch.uint8)
    with pytest.raises(InputError, match="refers to other files"):
        network(torch.zeros(1, 3, 32, 32))


@pytest.mark.parametrize(
    ("operation", "options", "output", "message"),
    [
        ("Reshape", {}, TensorProto.FLOAT, "cannot be used by onnxruntime"),
        ("NoSuchOperation", {}, TensorProto.FLOAT, "cannot be used by onnxruntime"),
        ("Shape", {}, TensorProto.INT64, "must give features of floating-point numbers"),
        ("Cast", {"to": TensorProto.STRING}, TensorProto.STRING, "must give features"),
    ],
)
def test_a_model_that_cannot_be_run_is_told(
    operation: str, options: dict[str, Any], output: int, message: str, tmp_path: Path
) -> None:
    inputs = ["images", "images"] if operation == "Reshape" else ["images"]
    node = helper.make_node(operation, inputs, ["features"], **options)
    graph = helper.make_graph(
        [node],
        "bad",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 32, 32])],
        [helper.make_tensor_value_info("features", output, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "bad.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=message):
        describe_encoder(str(path))


def test_features_of_another_width_are_told(tmp_path: Path) -> None:
    write_mean_colour(tmp_path / "model.onnx", ["n", 3, 32, 32])
    content = bytearray((tmp_path / "model.onnx").read_bytes())
    network = ONNXNetwork(len(content), 5)
    network.content = torch.frombuffer(content, dtype=torch.uint8)
    with pytest.raises(InputError, match=r"must give features \[1, 5\]; it gives \[1, 3\]"):
        network(torch.zeros(1, 3, 32, 32))


# ----------------------------------------------------------------------------------------- the hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that answers in place of the hub, by the names of huggingface_hub."""
    from huggingface_hub import errors

    folder = tmp_path / "hub"
    folder.mkdir()
    safetensors.torch.save_file(as_timm(make_weights()), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_args": {"num_heads": 4}}))
    asked: list[tuple[str, str]] = []

    class HfApi:
        def model_info(self, repository: str, revision: str | None) -> Any:
            asked.append((repository, revision or "newest"))
            return types.SimpleNamespace(sha=COMMIT, card_data={"license": "apache-2.0"})

    def hf_hub_download(repository: str, file: str, revision: str) -> str:
        if repository != "timm/small" or revision != COMMIT:
            raise errors.LocalEntryNotFoundError("no such repository")
        if not (folder / file).exists():
            raise errors.EntryNotFoundError("no such file")
        return str(folder / file)

    fake = types.ModuleType("huggingface_hub")
    fake.__dict__.update(
        HfApi=HfApi,
        hf_hub_download=hf_hub_download,
        try_to_load_from_cache=lambda *_, **__: None,
        _CACHED_NO_EXIST=object(),
        errors=errors,
        __spec__=sys.modules["huggingface_hub"].__spec__,
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    return folder


def test_a_repository_is_pinned_to_its_revision(hub: Path) -> None:
    config = describe_encoder("hf:timm/small")
    assert (config.name, config.licence) == (f"hf:timm/small@{COMMIT}", "apache-2.0")
    weights = read_weights(config)  # by the revision
    assert torch.equal(weights["embed.weight"], make_weights()["embed.weight"])


def test_what_the_hub_refuses_is_told(hub: Path) -> None:
    with pytest.raises(
        InputError, match=r"hf:timm/other@.* cannot be fetched from the hub: no such"
    ):
        describe_encoder(f"hf:timm/other@{COMMIT}")
    with pytest.raises(InputError, match="is named hf:ORG/NAME"):
        describe_encoder("hf:small")


@pytest.mark.parametrize("content", ["{", "[1]", "3", "\0"])
def test_a_repository_whose_facts_are_no_json_object_is_used_without_them(
    hub: Path, content: str
) -> None:
    (hub / "preprocessor_config.json").write_text(content)
    assert describe_encoder("hf:timm/small").mean == (0.485, 0.456, 0.406)


@pytest.mark.parametrize("facts", [{"model_args": None}, {"model_args": [4]}])
def test_a_repository_with_odd_facts_is_told_what_is_missing(
    hub: Path, facts: dict[str, Any]
) -> None:
    (hub / "config.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match="number of attention heads is not known"):
        describe_encoder("hf:timm/small")


def test_a_hub_that_cannot_be_reached_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]  # free again, and refused, once this is closed
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    with pytest.raises(InputError, match=r"^hf:timm/small cannot be fetched .* Check the name and"):
        describe_encoder("hf:timm/small")


def test_a_network_that_is_lost_after_the_weights_is_told(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or colours would be normalised by ImageNet's in silence."""
    from huggingface_hub import errors

    download = sys.modules["huggingface_hub"].hf_hub_download

    def lose(repository: str, file: str, revision: str) -> str:
        if file != "model.safetensors":
            raise errors.LocalEntryNotFoundError("the network is gone")
        return download(repository, file, revision)

    config = describe_encoder("hf:timm/small")
    monkeypatch.setattr(sys.modules["huggingface_hub"], "hf_hub_download", lose)
    with pytest.raises(InputError, match="cannot be fetched from the hub: the network is gone"):
        describe_encoder("hf:timm/small")
    assert read_weights(config)  # which needs no more than the weights


def test_an_error_that_is_not_the_hubs_is_not_hidden(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["huggingface_hub"], "hf_hub_download", lambda *_: 1)
    with pytest.raises(TypeError):
        describe_encoder("hf:timm/small")


def test_a_hub_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r'pip install .* -e "\.\[hub\]"'):
        describe_encoder("hf:timm/small")
