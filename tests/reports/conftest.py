"""A browser to look at the pages made from run folders."""

from tests.support.browser import chromium

__all__ = ["chromium"]
