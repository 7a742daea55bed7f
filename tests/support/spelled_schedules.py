"""Schedules and optimisers as the tables of published settings spell them."""

from __future__ import annotations

from fractions import Fraction

from remnant.phases import OptimizerConfig, Schedule

# Released: https://github.com/Rhyssiyan/DER-ClassIL.pytorch
DER_TUNING = "balanced_tuning: 30 epochs of 128, sgd 0.1, decay 0.0005, x0.1 at 15"


def spell_schedule(schedule: Schedule) -> str:
    parts = [
        f"{schedule.epochs} epochs of {schedule.batch_size}",
        spell_optimizer(schedule.optimizer),
    ]
    if schedule.views_per_image != 1:
        parts.append(f"{schedule.views_per_image} views")
    extra = (schedule.sampling, schedule.steps_from, schedule.corrects_prior)
    if schedule.sampling == "share":
        first, last = (Fraction(share).limit_denominator(9) for share in schedule.new_share)
        assert first == last, "no published share moves"
        parts.append(f"{first} new")
        assert extra == ("share", "new", False), "an epoch is as long as the new data"
    else:
        assert extra == ("union", "all", False), "no published schedule has these"
    return ", ".join(parts)


def spell_optimizer(optimizer: OptimizerConfig) -> str:
    assert not optimizer.nesterov, "no published optimiser looks ahead"
    moment = "" if optimizer.momentum == 0.9 else f" momentum {optimizer.momentum:g}"
    if optimizer.betas != (0.9, 0.999):
        moment += " betas " + " ".join(f"{beta:g}" for beta in optimizer.betas)
    of_weights = "" if optimizer.decay_norms_and_biases else " of weights"
    parts = [
        f"{optimizer.name} {optimizer.lr:g}{moment}",
        f"decay {optimizer.weight_decay:g}{of_weights}",
    ]
    if optimizer.schedule == "steps":
        places = " ".join(f"{milestone:g}" for milestone in optimizer.milestones)
        parts.append(f"x{optimizer.gamma:g} at {places}")
    else:
        end = f" to {optimizer.min_lr:g}" if optimizer.min_lr else ""
        parts.append(f"{optimizer.schedule}{end}")
    if optimizer.warmup_epochs:
        parts.append(f"warm-up {optimizer.warmup_epochs:g} from {optimizer.warmup_lr:g}")
    if optimizer.clip_value is not None:
        parts.append(f"clamp {optimizer.clip_value:g}")
    if optimizer.clip_norm is not None:
        parts.append(f"length {optimizer.clip_norm:g}")
    return ", ".join(parts)
