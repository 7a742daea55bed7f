"""What stays in float32 where a network is trained in bf16.

Scores: bf16 has eight bits for them, so that several classes often get the very same score, and
the oldest of them wins. Attention on CPUs: the backward pass of its bf16 kernel is five times
slower than that of its float32 kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional


@contextmanager
def in_float32(inputs: Tensor) -> Iterator[Tensor]:
    """Within the block nothing is rounded to bf16; gives `inputs` in float32."""
    kind = inputs.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        yield inputs
    else:
        with torch.autocast(kind, enabled=False):
            yield inputs.float()


def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Softmax of the scaled products of `queries` [..., Q, D] and `keys`, times `values`."""
    if queries.device.type != "cpu" or queries.dtype is not torch.bfloat16:
        return functional.scaled_dot_product_attention(queries, keys, values)
    with in_float32(queries) as exact:
        return functional.scaled_dot_product_attention(exact, keys.float(), values.float())
