from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from remnant.errors import InputError
from remnant.memory import Budget, MemoryConfig, PatchesConfig, RawConfig, parse_budget


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60KiB/class", Budget(61_440, True)),
        ("61440B/class", Budget(61_440, True)),
        ("20images/class", Budget(61_440, True)),
        ("1 image / class", Budget(3_072, True)),
        ("2000images", Budget(6_144_000, False)),
        ("2MiB", Budget(2_097_152, False)),
        ("1.5 mib", Budget(1_572_864, False)),
        ("2MB", Budget(2_000_000, False)),
        ("61440", Budget(61_440, False)),
        ("0.0015KB", Budget(1, False)),
    ],
)
def test_a_budget_reads_as_written(text: str, expected: Budget) -> None:
    assert parse_budget(text, image_bytes=32 * 32 * 3) == expected


@pytest.mark.parametrize(
    "text",
    ["", "KiB", "-1B", "0", "0images", "60KiB/task", "60 elephants", "1.5images", "1e6", "9" * 99],
)
def test_what_is_no_amount_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InputError, match="60KiB/class"):
        parse_budget(text, image_bytes=3072)
    with pytest.raises(ValidationError, match="60KiB/class"):
        MemoryConfig(budget=text)


@given(st.integers(1, 10**9), st.integers(1, 1000))
def test_shares_of_a_total_never_exceed_it(amount: int, num_classes: int) -> None:
    budget = Budget(amount, per_class=False)
    assert budget.quota(num_classes) * num_classes <= budget.total(num_classes) == amount


def test_two_thousand_images_are_shared_as_published() -> None:
    budget = parse_budget("2000images", 3072)
    shares = [budget.quota(classes) // 3072 for classes in range(10, 101, 10)]
    assert shares == [200, 100, 66, 50, 40, 33, 28, 25, 22, 20]


def test_a_codec_is_set_by_name_or_in_full() -> None:
    assert MemoryConfig.model_validate({"codec": "patches"}).codec == PatchesConfig()
    full = {"name": "patches", "mask_ratio": 0.9}
    assert MemoryConfig.model_validate({"codec": full}).codec == PatchesConfig(mask_ratio=0.9)
    assert MemoryConfig.model_validate({}).codec == RawConfig()
    with pytest.raises(ValidationError, match=r"memory\.codec must be one of raw, patches"):
        MemoryConfig.model_validate({"codec": "jpg"})
    with pytest.raises(ValidationError, match="mask_ratio"):
        MemoryConfig.model_validate({"codec": {"name": "raw", "mask_ratio": 0.9}})


def test_a_config_survives_json() -> None:
    config = MemoryConfig(codec=PatchesConfig(patch_size=16), count_overhead=False)
    assert MemoryConfig.model_validate_json(config.model_dump_json()) == config


def test_bytes_may_be_a_number() -> None:
    assert MemoryConfig.model_validate({"budget": 61440}).budget == "61440"
