"""Checks of what every method must do, for the methods here and for those of plug-ins.

from remnant.testing import check_method

check_method(MyMethod)
"""

from __future__ import annotations

from remnant.testing.method_checks import CHECKS, Check, check_method, checks_for
from remnant.testing.trial import Trial, small_config

__all__ = ["CHECKS", "Check", "Trial", "check_method", "checks_for", "small_config"]
