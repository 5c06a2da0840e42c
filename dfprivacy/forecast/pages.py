"""Explanations as plain text of at most 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from dfprivacy.forecast.forecast import Forecast, number

WIDTH = 100
_TITLE = 10


def page_of(head: Sequence[str], answers: Sequence[Forecast], level: float) -> str:
    """Return lines, then each answer with its half-widths by size."""
    lines = [*head]
    for answer in answers:
        lines += ["", *answer_lines(answer, level)]
    return "\n".join(lines)


def titled(title: str, text: str) -> list[str]:
    """Return a text behind its title, wrapped."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"{title:<{_TITLE - 1}} ", subsequent_indent=" " * _TITLE,
        break_on_hyphens=False,
    )  # fmt: skip


def answer_lines(answer: Forecast, level: float) -> list[str]:
    """Return what is known of one answer."""
    name = answer.name if len(answer.name) < _TITLE else f"{answer.name}:"
    if len(name) >= _TITLE:
        lines = [*textwrap.wrap(name, WIDTH), *titled("", answer.question)]
    else:
        lines = titled(name, answer.question)
    for title, text in facts(answer, level):
        lines += titled("", f"{title}: {text}")
    return lines + (_widths(answer) if answer.told else [])


def facts(answer: Forecast, level: float) -> list[tuple[str, str]]:
    """Return what is known besides half-widths, each with its title."""
    found = [("noise", noise_text(answer))]
    if answer.answered is not None:
        found.append(("a number", str(answer.answered)))
    if answer.halve:
        found.append(("half the error", ", or ".join(answer.halve)))
    found += [("note", remark) for remark in answer.remarks]
    if answer.told:
        found.append((f"half-width at {100 * level:.6g}%", f"in {answer.unit}"))
    return found


def noise_text(answer: Forecast) -> str:
    """Return mechanism and scale in words."""
    if answer.scale is None:
        return answer.mechanism
    return f"{answer.mechanism}, scale {number(answer.scale)} ({answer.scale_unit})"


def _widths(answer: Forecast) -> list[str]:
    rows = [f"{size:,}" for size in answer.rows]
    columns = {"rows": rows, "at most": list(map(number, answer.certain))}
    if any(half is not None for half in answer.ordinary):
        columns["ordinary"] = list(map(number, answer.ordinary))
    return [
        f"{'':<{_TITLE}}{name:<9}{''.join(f'{text:>12}' for text in texts)}"
        for name, texts in columns.items()
    ]
