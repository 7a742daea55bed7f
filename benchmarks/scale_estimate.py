"""What does a run of 21,000 classes at 224 px take, by the unit costs that were measured here?

    python benchmarks/scale_estimate.py
    python benchmarks/scale_estimate.py --classes 1000 --exemplars 80

Nothing is run: the costs below are those of docs/performance.md and docs/methods/bimae.md, the rest
is multiplication. The network is Bilateral MAE at the paper's size; a GPU is an A100 at 30 % of its
peak, an assumption as in docs/paper-scale.md.
"""

from __future__ import annotations

import argparse

GPU_FLOPS = 0.3 * 312e12  # per second
TRAIN_FLOPS, PARAMETERS, WIDTH = 11.5e9, 13.46e6, 384  # per image; without the classifier
IMAGE_BYTES = 224 * 224 * 3
FILE_SECONDS = 2e-3  # to decode an image file, one thread
# Of one exemplar at 224 px: bytes, decodes and encodes per second and core.
CODECS = {
    "patches": (37_657, 8_839, 5_862),
    "coded-patches": (1_951, 663, 165),
    "transform": (7_454, 170, 50),
    "jpeg": (10_575, 2_012, 1_964),
}
BUCKETS = 4  # of 25 MB, as torch makes them
DIGEST_BYTES, SAVE_BYTES, NETWORK_BYTES = 0.47e9, 0.13e9, 0.78e9  # per second


def describe_codecs(count: int) -> None:
    print(
        "| codec | memory, GB | x 8 processes, GB | digest, s | save, s | decode, s | encode, s |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, (size, decodes, encodes) in CODECS.items():
        total = count * size
        times = (total / DIGEST_BYTES, total / SAVE_BYTES, count / decodes, count / encodes)
        cells = (name, f"{total / 1e9:.1f}", f"{8 * total / 1e9:.0f}")
        print("| " + " | ".join([*cells, *(f"{one:,.0f}" for one in times)]) + " |")


def describe_training(arguments: argparse.Namespace) -> None:
    per_task = arguments.classes / arguments.tasks
    new = arguments.classes * arguments.images
    replayed = per_task * arguments.exemplars * sum(range(arguments.tasks))
    shown = arguments.epochs * (new + replayed)
    parameters = PARAMETERS + WIDTH * arguments.classes
    rate = GPU_FLOPS / TRAIN_FLOPS  # images per second and GPU
    saved, scratch = 12 * parameters, arguments.classes * arguments.exemplars * IMAGE_BYTES
    print(f"\n{shown:.3g} images shown, {replayed / (new + replayed):.0%} of them exemplars")
    print(f"{parameters / 1e6:.1f} M parameters, {rate:,.0f} images/s per GPU")
    print(f"network and Adam: {saved / 1e6:.0f} MB, saved in {saved / NETWORK_BYTES:.1f} s")
    print(f"completions: {scratch / 1e9:.0f} GB per process\n")
    print("| GPUs | hours | decode threads | step, ms | sent per step, MB | GB/s per GPU |")
    print("|---:|---:|---:|---:|---:|---:|")
    for gpus in (1, 8, 64):
        step = arguments.batch_size / gpus / rate
        sent = 2 * (gpus - 1) / gpus * 4 * parameters
        threads = rate * gpus * FILE_SECONDS * new / (new + replayed)
        cells = (shown / rate / gpus / 3600, threads, 1000 * step, sent / 1e6, sent / step / 1e9)
        print(f"| {gpus} | " + " | ".join(f"{cell:,.1f}" for cell in cells) + " |")


def describe_communication(arguments: argparse.Namespace, gpus: int = 8) -> None:
    """What summing gradients adds to a step, after the backward pass and while it runs."""
    parameters = PARAMETERS + WIDTH * arguments.classes
    step = arguments.batch_size / gpus / (GPU_FLOPS / TRAIN_FLOPS)
    print(f"\n{gpus} GPUs, a step of {1000 * step:.1f} ms, of which the backward pass is 2/3\n")
    print("| network, GB/s per GPU | the sum, ms | share after | share during |")
    print("|---:|---:|---:|---:|")
    for speed in (10, 25, 150):
        total = 2 * (gpus - 1) / gpus * 4 * parameters / (speed * 1e9)
        # The last bucket is complete only when the backward pass ends.
        left = max(total / BUCKETS, total - step * 2 / 3)
        shares = (total / (step + total), left / (step + left))
        print(f"| {speed} | {1000 * total:.1f} | " + " | ".join(f"{s:.0%}" for s in shares) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--classes", type=int, default=21_000)
    parser.add_argument("--images", type=int, default=676, help="of a class, for training")
    parser.add_argument("--exemplars", type=int, default=20, help="per class")
    parser.add_argument("--tasks", type=int, default=21)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=1024)
    arguments = parser.parse_args()
    describe_codecs(arguments.classes * arguments.exemplars)
    describe_training(arguments)
    describe_communication(arguments)


if __name__ == "__main__":
    main()
