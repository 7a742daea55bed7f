"""Every table and figure of the paper as something that runs, and studies of our own.

To add a study: its file beside this one, and its name in the list below.
"""

from __future__ import annotations

from remnant.errors import InputError, nearest
from remnant.studies import (
    best_study,
    budgets_study,
    buffer_study,
    cifar100_study,
    components_study,
    demo_study,
    density_study,
    detail_domain_study,
    detail_example_study,
    fine_ratio_study,
    imagenet_full_study,
    imagenet_subset_study,
    margin_study,
    mask_ratio_study,
    memory_efficient_study,
    methods_study,
    model_size_study,
    reconstructions_study,
    storage_study,
)
from remnant.studies.study import Study, StudyScale

__all__ = ["STUDIES", "Study", "StudyScale", "find_study"]

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (
        cifar100_study,
        imagenet_subset_study,
        imagenet_full_study,
        components_study,
        mask_ratio_study,
        detail_domain_study,
        fine_ratio_study,
        model_size_study,
        buffer_study,
        memory_efficient_study,
        density_study,
        reconstructions_study,
        detail_example_study,
        methods_study,
        storage_study,
        budgets_study,
        best_study,
        margin_study,
        demo_study,
    )
}


def find_study(name: str) -> Study:
    """Raises InputError for an unknown name, with the nearest one."""
    if name not in STUDIES:
        raise InputError(
            f"{name!r} is not a study.{nearest(name, STUDIES)} See remnant reproduce --list."
        )
    return STUDIES[name]
