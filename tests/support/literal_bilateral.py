"""E1 to E8 of Bilateral MAE for one image at a time: slow, obvious, written from the paper.

It shares nothing with the package but a network's weights. Images are [C, H, W], float64.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class LiteralBilateralMAE:
    def __init__(
        self,
        network: nn.Module,
        *,
        image_shape: tuple[int, int, int],
        patch_size: int,
        head_width: int,
        depth: int,
        cutoff: float = 0.25,
        frequency_per: str = "image",
        has_detail_branch: bool = True,
        detail_domain: str = "frequency",
    ) -> None:
        self.weights = {name: value.double() for name, value in network.named_parameters()}
        self.height, self.width, self.channels = image_shape
        self.patch_size = patch_size
        self.head_width = head_width
        self.depth = depth
        self.cutoff = cutoff
        self.frequency_per = frequency_per
        self.has_detail_branch = has_detail_branch
        self.detail_domain = detail_domain

    def linear(self, name: str, tokens: Tensor) -> Tensor:
        return tokens @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name: str, tokens: Tensor) -> Tensor:
        centred = tokens - tokens.mean(dim=-1, keepdim=True)
        variance = (centred**2).mean(dim=-1, keepdim=True)
        scaled = centred / torch.sqrt(variance + 1e-5)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def gelu(self, values: Tensor) -> Tensor:
        return values * 0.5 * (1 + torch.erf(values / math.sqrt(2)))

    def block(self, name: str, tokens: Tensor) -> Tensor:
        """A whole pre-norm transformer block, head by head, for tokens [N, D]."""
        inner = self.linear(f"{name}.attention.qkv", self.norm(f"{name}.attention_norm", tokens))
        width = tokens.shape[1]
        heads = []
        for start in range(0, width, self.head_width):
            stop = start + self.head_width
            query = inner[:, start:stop]
            key = inner[:, width + start : width + stop]
            value = inner[:, 2 * width + start : 2 * width + stop]
            heads.append(torch.softmax(query @ key.T / math.sqrt(self.head_width), dim=1) @ value)
        tokens = tokens + self.linear(f"{name}.attention.project", torch.cat(heads, dim=1))
        hidden = self.gelu(self.linear(f"{name}.mlp.0", self.norm(f"{name}.mlp_norm", tokens)))
        return tokens + self.linear(f"{name}.mlp.2", hidden)

    def position(self, place: int, width: int) -> Tensor:
        row, column = divmod(place, self.width // self.patch_size)
        quarter = width // 4
        rates = [10_000 ** (-k / quarter) for k in range(quarter)]
        return torch.tensor(
            [
                wave(axis * rate)
                for axis in (column, row)
                for wave in (math.sin, math.cos)
                for rate in rates
            ],
            dtype=torch.float64,
        )

    def corner(self, place: int) -> tuple[int, int]:
        row, column = divmod(place, self.width // self.patch_size)
        return row * self.patch_size, column * self.patch_size

    def first(self, image: Tensor, visible: list[int]) -> Tensor:
        """f = F[:1](mask(x, r))."""
        tokens = [self.weights["encoder.class_token"]]
        for place in visible:
            top, left = self.corner(place)
            patch = image[:, top : top + self.patch_size, left : left + self.patch_size]
            token = self.linear("encoder.patch_embedding", patch.flatten())
            tokens.append(token + self.position(place, len(token)))
        return self.block("encoder.first", torch.stack(tokens))

    def rest(self, first: Tensor) -> Tensor:
        """F[1:](f)."""
        tokens = first
        for index in range(self.depth - 1):
            tokens = self.block(f"encoder.rest.{index}", tokens)
        return self.norm(f"encoder.rest.{self.depth - 1}", tokens)

    def detail(self, first: Tensor) -> Tensor:
        """H(f)."""
        tokens = self.gelu(self.linear("detail_branch.0", first))
        tokens = self.gelu(self.linear("detail_branch.2", tokens))
        return self.linear("detail_branch.4", tokens)

    def fuse(self, main: Tensor, detail: Tensor) -> Tensor:
        """z = E(main, detail): all tokens go through the whole block, one is used."""
        fused = self.block("fusion", torch.cat([main, detail]))
        return self.norm("fusion_norm", fused[0])

    def decode(self, tokens: Tensor, visible: list[int]) -> Tensor:
        """D: every patch has the token of its place, or the mask token."""
        filled = [tokens[0]]
        for place in range((self.height // self.patch_size) * (self.width // self.patch_size)):
            if place in visible:
                token = tokens[1 + visible.index(place)]
            else:
                token = self.weights["decoder.mask_token"]
            filled.append(token + self.position(place, len(token)))
        decoded = self.norm("decoder.norm", self.block("decoder.block", torch.stack(filled)))
        pixels = self.linear("decoder.to_pixels", decoded)
        image = torch.empty(self.channels, self.height, self.width, dtype=torch.float64)
        for place, values in enumerate(pixels[1:]):
            top, left = self.corner(place)
            window = values.reshape(self.channels, self.patch_size, self.patch_size)
            image[:, top : top + self.patch_size, left : left + self.patch_size] = window
        return image

    def high_pass_piece(self, piece: Tensor) -> Tensor:
        """M of one piece [C, h, w], coefficient by coefficient."""
        spectrum = torch.fft.fft2(piece) / math.sqrt(piece.shape[1] * piece.shape[2])
        for i in range(piece.shape[1]):
            for j in range(piece.shape[2]):
                down = min(i, piece.shape[1] - i) / piece.shape[1]
                right = min(j, piece.shape[2] - j) / piece.shape[2]
                if math.hypot(down, right) <= self.cutoff + 1e-9:
                    spectrum[:, i, j] = 0
        return spectrum

    def pieces(self) -> list[tuple[slice, slice]]:
        if self.frequency_per == "image":
            return [(slice(0, self.height), slice(0, self.width))]
        side = self.patch_size
        return [
            (slice(top, top + side), slice(left, left + side))
            for top in range(0, self.height, side)
            for left in range(0, self.width, side)
        ]

    def detail_image(self, image: Tensor) -> Tensor:
        """real(ifft2(M(image)))."""
        result = torch.empty_like(image)
        for rows, columns in self.pieces():
            piece = image[:, rows, columns]
            scale = math.sqrt(piece.shape[1] * piece.shape[2])
            result[:, rows, columns] = (torch.fft.ifft2(self.high_pass_piece(piece)) * scale).real
        return result

    def completion(self, image: Tensor, visible: list[int]) -> Tensor:
        """x_hat = x' + x'' [E3, E4, E5]."""
        first = self.first(image, visible)
        main = self.decode(self.rest(first), visible)
        if not self.has_detail_branch:
            return main
        return main + self.detail_image(self.decode(self.detail(first), visible))

    def main_image(self, image: Tensor, visible: list[int]) -> Tensor:
        """D(F(mask(x, r))) [E6]."""
        return self.decode(self.rest(self.first(image, visible)), visible)

    def scores(self, image: Tensor, visible: list[int]) -> Tensor:
        """G(z) [E2]."""
        first = self.first(image, visible)
        main = self.rest(first)
        feature = self.fuse(main, self.detail(first)) if self.has_detail_branch else main[0]
        return self.linear("classifier", feature)

    def detail_loss(
        self, image: Tensor, visible: list[int], visible_1: list[int], visible_2: list[int]
    ) -> Tensor:
        """L_det of one image [E7], with x1 and x2 from their own masks and without gradient."""
        own = self.decode(self.detail(self.first(image, visible)), visible)
        with torch.no_grad():
            difference = self.main_image(image, visible_2) - self.main_image(image, visible_1)
        if self.detail_domain == "spatial":
            return (own - difference).abs().sum() / image.numel()
        total = torch.zeros((), dtype=torch.float64)
        for rows, columns in self.pieces():
            own_spectrum = self.high_pass_piece(own[:, rows, columns])
            gap = own_spectrum - self.high_pass_piece(difference[:, rows, columns])
            total = total + gap.abs().sum()
        return total / image.numel()

    def terms(
        self,
        images: Tensor,
        labels: list[int],
        masks: list[list[list[int]]],
        weights: tuple[float, float, float] = (0.01, 1.0, 1.0),
        is_whole: list[bool] | None = None,
    ) -> dict[str, Tensor]:
        """The three terms of L [E8] for a batch; `masks` are those of x, x1 and x2.

        Images that are not whole are classified and nothing else; every mean is over all images.
        """
        zero = torch.zeros((), dtype=torch.float64)
        totals = {"classify": zero, "reconstruct": zero}
        if self.has_detail_branch:
            totals["detail"] = zero
        for index, image in enumerate(images.double()):
            visible = [mask[index] for mask in masks]
            scores = self.scores(image, visible[0])
            loss = torch.log(torch.exp(scores).sum()) - scores[labels[index]]
            totals["classify"] = totals["classify"] + weights[0] * loss
            if is_whole is not None and not is_whole[index]:
                continue
            squares = (image - self.completion(image, visible[0])) ** 2
            totals["reconstruct"] = totals["reconstruct"] + weights[1] * squares.mean()
            if self.has_detail_branch:
                loss = self.detail_loss(image, *visible)
                totals["detail"] = totals["detail"] + weights[2] * loss
        return {name: total / len(images) for name, total in totals.items()}
