"""FLOPs counted from shapes: the products themselves are left out, and noise stands for them.

What a plan counts does not depend on values, and the products are nearly all of the work.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_any_only, tree_map_only

from remnant.training.arithmetic import FlopCount, is_counted

_NOISE = 4099  # a prime, so that no two rows of a usual length are the same


class ShapeFlops(FlopCount):
    """Within the block, adds up FLOPs as `FlopCount` does, without computing what it counts.

    Results are meaningless. No random number of the program is used up.
    """

    def __init__(self) -> None:
        super().__init__()
        self._noise = torch.randn(_NOISE, generator=torch.Generator().manual_seed(0))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        # On "meta" nothing is computed anyway: a plan's own networks, or a block inside this one.
        if not is_counted(func) or tree_any_only(Tensor, _has_no_values, (args, given)):
            return super().__torch_dispatch__(func, types, args, given)
        device = next(one.device for one in args if isinstance(one, Tensor))
        shapes = tree_map_only(Tensor, lambda one: one.to("meta"), (args, given))
        out = super().__torch_dispatch__(func, types, *shapes)
        return tree_map_only(Tensor, lambda one: self._stand_in(one, device), out)

    def _stand_in(self, shape: Tensor, device: torch.device) -> Tensor:
        if not shape.is_floating_point():
            return torch.zeros_like(shape, device=device)
        # As many numbers as the strides reach over: a result may lie channels last.
        sizes = zip(shape.shape, shape.stride(), strict=True)
        reach = 1 + sum((size - 1) * step for size, step in sizes)
        values = self._noise.repeat(reach // _NOISE + 1)[:reach]
        return values.to(device, shape.dtype).as_strided(shape.shape, shape.stride())


def _has_no_values(tensor: Tensor) -> bool:
    return tensor.device.type == "meta"
