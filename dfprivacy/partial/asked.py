"""What a caller asks of a frame whose statistics go to a file: checked as for a release."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.private import Private, PrivateGroupBy
from dfprivacy.release.frames import frame_names
from dfprivacy.release.request import limits_of
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.statistics.part import Part
from dfprivacy.statistics.split import split
from dfprivacy.terms import PublicKeys, Terms
from dfprivacy.unit import Unit, unit_of
from dfprivacy.vectors.question import MeanVector

_TERMS = ("epsilon", "rho", "delta", "interval")


@dataclass(frozen=True)
class Asked:
    """Questions in parts, the groups, and the unit with the limits as they hold for them."""

    questions: Mapping[str, Statistic]
    by: Sequence[Hashable]
    keys: PublicKeys | None
    unit: Unit | None
    parts: tuple[Part, ...]

    @property
    def kind(self) -> str:
        """Tell public keys from secret ones, and both from none."""
        if not self.by:
            return "none"
        return "secret" if self.keys is None else "public"


class _Whole(Private):
    """A frame whose `agg` says what would be asked."""

    def _answer(self, questions: Mapping[str, Statistic], terms: Terms) -> Any:  # noqa: ARG002 nothing is released
        return questions


class _Grouped(PrivateGroupBy):
    """The same by group."""

    def _answer(self, questions: Mapping[str, Statistic], terms: Terms) -> Any:  # noqa: ARG002 nothing is released
        return questions, self._keys


def asked_of(
    questions: tuple[object, ...],
    named: Mapping[str, object],
    by: Hashable | Sequence[Hashable],
    keys: object,
    *,
    unit: object,
    limits: tuple[object, object],
    bounds: object,
) -> Asked:
    """Return what is asked, its terms checked and bounds filled in.

    Raises
    ------
    DPError
        When anything about questions, groups or unit can't be: nothing depends on data.
    """
    _check([*questions, *named.values()], named, bounds)
    terms = Terms(unit=unit_of(unit, *limits)).updated(bounds=bounds)
    labels = tuple(by) if isinstance(by, list | tuple) else (by,)
    if labels:
        asked, public = _Grouped(None, terms, labels, keys).agg(*questions, **named)  # type: ignore[arg-type]
    else:
        asked, public = _Whole(None, terms).agg(*questions, **named), None  # type: ignore[arg-type]
    parts = split(asked, grouped=bool(labels))
    if labels:
        frame_names(parts, asked, [str(label) for label in labels])
    return Asked(asked, labels, public, limits_of(terms.unit, labels, public)[0], parts)


def _check(questions: Sequence[object], named: Mapping[str, object], bounds: object) -> None:
    """Refuse what has no statistics that add up, terms of a release, and bounds that are no map."""
    if any(isinstance(question, MeanVector | Histogram) for question in questions):
        raise InvalidQuestionError(
            "means of vectors and histograms are not made of one table that adds up: mean_vector "
            "takes several passes, and later ones depend on the noise of earlier ones",
            hint="ask it of the whole frame: dfp.frame(path).mean_vector(...) or .histogram(...)",
        )
    given = [name for name in _TERMS if name in named]
    if given:
        raise InvalidQuestionError(
            f"{given[0]} was given, and nothing is released or spent here",
            hint="name it when the files are released: dfp.merge(paths, epsilon=1)",
        )
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidQuestionError(
            "bounds of several columns come as a mapping from column to bounds",
            hint='pass bounds={"column": (0, 100)}',
        )
