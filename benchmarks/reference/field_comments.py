"""What the source of a config says of its fields: the comments beside and above them.

A comment at the end of a field's lines, or in the lines right above it, is about the field. A
comment with an empty line below it heads the fields that follow.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tokenize
from functools import cache

from pydantic import BaseModel


@cache
def field_comments(model: type[BaseModel]) -> dict[str, str]:
    """By field, inherited ones too: what the comments say, as one line."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel:
            found |= {name: text for name, (text, _) in _own(owner).items() if text}
    return found


@cache
def field_groups(model: type[BaseModel]) -> dict[str, str]:
    """By field, the comment that heads its group; only fields that are in one."""
    return {name: group for name, (_, group) in _own(model).items() if group}


def _own(model: type[BaseModel]) -> dict[str, tuple[str, str]]:
    source = textwrap.dedent(inspect.getsource(model))
    lines = source.splitlines()
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {one.start[0]: one for one in tokens if one.type == tokenize.COMMENT}
    alone = {line for line, one in comments.items() if lines[line - 1].strip() == one.string}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    fields, group, last = {}, "", 0
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            end = node.end_lineno or node.lineno
            above = node.lineno - 1
            while above in alone:
                above -= 1
            beside = [line for line in range(above + 1, end + 1) if line in comments]
            heads = [line for line in range(last + 1, above) if line in alone]
            group = _join(comments[line].string for line in heads) if heads else group
            fields[node.target.id] = (_join(comments[line].string for line in beside), group)
            last = end
    return fields


def _join(comments: object) -> str:
    text = " ".join(str(one).lstrip("# ").strip() for one in comments)  # pyright: ignore
    return re.sub(r"\s+", " ", text).removesuffix(".")
