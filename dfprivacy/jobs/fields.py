"""Types of the fields of a description: what pydantic checks, and how it is said in plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from dfprivacy.errors import DPError
from dfprivacy.jobs.reading import nearest
from dfprivacy.terms import Bounds, bounds_of

T = TypeVar("T")
Fields = Mapping[str, Any]


class Group(BaseModel):
    """A group of fields, where a field that holds nothing is as one that is not there."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="wrap")
    @classmethod
    def _group(cls, given: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        known = [name for name, own in cls.model_fields.items() if own.validation_alias is None]
        fields = {n: item for n, item in group(given).items() if item is not None or n not in known}
        try:
            return check(fields)
        except ValidationError as error:
            found = [_of_group(one, known) for one in error.errors()]
        raise ValidationError.from_exception_data(cls.__name__, found)


def _of_group(error: ErrorDetails, known: Sequence[str]) -> InitErrorDetails:
    """Return what is wrong in a group, in plain words."""
    *_, name = error["loc"] or ("",)
    if error["type"] == "missing":
        return _told("group", error["loc"], f"{name!r} is missing")
    if error["type"] == "extra_forbidden":
        what = f"unknown field {name!r}; {nearest(str(name), known)}"
        return _told("unknown", error["loc"], what)
    return _told(error["type"], error["loc"], _words(error))


def _words(error: ErrorDetails) -> str:
    reason = error.get("ctx", {}).get("error")
    if isinstance(reason, DPError):
        return reason.message
    return error["msg"] if reason is None else str(reason)


def _told(kind: str, at: tuple[int | str, ...], words: str) -> InitErrorDetails:
    return {"type": wrong(words, kind), "loc": at, "input": None}


def wrong(words: str, kind: str = "fault") -> PydanticCustomError:
    """Return an error in words of ours; of the kind "group" it is about the group of its field."""
    return PydanticCustomError(kind, "{words}", {"words": words})


def group(given: Any) -> Fields:
    """Return a group of fields.

    Raises
    ------
    PydanticCustomError
        When it is something else.
    """
    if isinstance(given, dict):
        return given
    raise wrong(f"this is {kind_of(given)}, not a group of fields")


def kind_of(given: object) -> str:
    """Return what a value is, in words."""
    words = {str: "a text", bool: "true or false", list: "a list", dict: "a group of fields"}
    return "nothing" if given is None else words.get(type(given), "a number")


def each(given: Any, make: Callable[[str, Any], T]) -> dict[str, T]:
    """Return what `make` makes of each field of a group; what it refuses are faults of that field.

    Raises
    ------
    ValidationError
        With the faults of all fields.
    """
    made: dict[str, T] = {}
    found: list[InitErrorDetails] = []
    for name, item in group(given).items():
        try:
            made[name] = make(name, item)
        except ValidationError as error:
            found += [
                _told(one["type"], (name, *one["loc"]), _words(one)) for one in error.errors()
            ]
        except (DPError, ValueError) as error:
            said = error.message if isinstance(error, DPError) else str(error)
            found.append(_told("fault", (name,), said))
    if found:
        raise ValidationError.from_exception_data("fields", found)
    return made


def _text(given: object) -> str:
    if isinstance(given, str) and given.strip():
        return given
    empty = "this is empty" if isinstance(given, str) else f"this is {kind_of(given)}"
    quotes = "; put it in quotes" if isinstance(given, int | float) else ""
    raise ValueError(f"{empty}, not a text{quotes}")


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _number(given: Any) -> float:
    if _is_number(given):
        return given  # type: ignore[no-any-return]
    raise ValueError(f"this is {kind_of(given)}, not a number")


def _listed(given: object) -> list[Any]:
    """Return a list; a plain value is a list of one."""
    if isinstance(given, dict):
        return []
    return given if isinstance(given, list) else [given]


def _texts(given: object) -> tuple[str, ...]:
    found = _listed(given)
    if not found or not all(isinstance(item, str) and item.strip() for item in found):
        raise ValueError("this is not a list of texts")
    return tuple(found)


def _numbers(given: object) -> tuple[float, ...]:
    found = _listed(given)
    if not found or not all(map(_is_number, found)):
        raise ValueError("this is not a list of numbers")
    return tuple(found)


def _pair(given: object) -> Bounds:
    bounds = bounds_of(list(_numbers(given)))
    assert bounds is not None  # noqa: S101 a pair was given
    return bounds


@dataclass(frozen=True)
class Place:
    """A file as the description names it, and where that is."""

    text: str
    path: Path


def place_of(given: object, info: ValidationInfo) -> Place:
    """Return a place: paths stand relative to the description's folder."""
    text, folder = _text(given), info.context
    assert isinstance(folder, Path)  # noqa: S101 whoever checks fields names it
    return Place(text, folder / text)


Text = Annotated[str, PlainValidator(_text)]
Texts = Annotated[tuple[str, ...], PlainValidator(_texts)]
Number = Annotated[float, PlainValidator(_number)]
Numbers = Annotated[tuple[float, ...], PlainValidator(_numbers)]
Pair = Annotated[Bounds, PlainValidator(_pair)]
File = Annotated[Place, PlainValidator(place_of)]
