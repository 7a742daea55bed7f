"""Names from outside as a terminal may show them.

A file or a class may be named with escape codes, which colour or clear a terminal, or with line
breaks, after which a name can pretend to be a message of ours.
"""

from __future__ import annotations

import unicodedata

# Controls, formats such as a change of direction, surrogates, line and paragraph separators.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"  # formats too, but parts of words and of emoji


def visible(name: object) -> str:
    """A name in one line, with what does not show written as in a Python string."""
    return "".join(one if _shows(one) else _spell(one) for one in str(name))


def _shows(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character) not in _HIDDEN


def _spell(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte of a file name that is no UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return repr(character)[1:-1]
