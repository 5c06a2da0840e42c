"""Tell mypy that frames have `.dp`: write `plugins = ["dfprivacy.frames.mypy"]` in its settings.

Type checkers know no attribute that one package adds to classes of another. Mypy is told here what
`df.dp` is; others know `dfp.frame(df)`, which is the same.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import MDEF, MypyFile, SymbolTableNode, TypeInfo, Var
from mypy.plugin import AttributeContext, ClassDefContext, Plugin
from mypy.types import AnyType, Instance, Type, TypeOfAny

KINDS = {
    "pandas.core.frame.DataFrame": "Private",
    "pandas.core.series.Series": "PrivateSeries",
    "polars.dataframe.frame.DataFrame": "Private",
    "polars.lazyframe.frame.LazyFrame": "Private",
    "polars.series.series.Series": "PrivateSeries",
}
"""What answers for the frames and series of a library, by the names of their classes there."""


def plugin(_: str) -> type[Plugin]:
    """Return the plugin, as mypy asks for it."""
    return Doors


class Doors(Plugin):
    """Puts `.dp` on frames and series, and says what it is of the frame at hand."""

    def get_customize_class_mro_hook(
        self, fullname: str
    ) -> Callable[[ClassDefContext], None] | None:
        """Return what adds the attribute to a class of frames."""
        return _add_door if fullname in KINDS else None

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        """Return what tells the type of the attribute."""
        frame, _, name = fullname.rpartition(".")
        kind = KINDS.get(frame) if name == "dp" else None
        return None if kind is None else lambda asked: _behind(kind, asked)


def _add_door(defined: ClassDefContext) -> None:
    info = defined.cls.info
    door = Var("dp", AnyType(TypeOfAny.special_form))
    door.info, door._fullname = info, f"{info.fullname}.dp"  # noqa: SLF001 mypy sets it likewise
    info.names["dp"] = SymbolTableNode(MDEF, door, plugin_generated=True)


def _behind(kind: str, asked: AttributeContext) -> Type:
    """Return what answers for a frame; anything where no file that is checked imports it."""
    modules: dict[str, MypyFile] = getattr(asked.api, "modules", {})
    home = modules.get("dfprivacy.frames.private")
    found = home.names[kind].node if home is not None else None
    if not isinstance(found, TypeInfo):
        return asked.default_attr_type
    return Instance(found, [asked.type] if found.type_vars else [])
