"""What every released number can do: show itself on one line, in a notebook and as a chart."""

from __future__ import annotations

from typing import Any

from dfprivacy.display.figures import readings_figure
from dfprivacy.display.reading import Reading
from dfprivacy.display.words import MeasuredIn


class Readable:
    """A number that is shown as a reading."""

    def reading(self) -> Reading:
        """Return what is shown of the number."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Show the number, its interval if it has one, and its cost on one line."""
        return self.reading().line

    def _repr_html_(self) -> str:
        return self.reading().card()

    def plot(self, *, measured_in: MeasuredIn = None) -> Any:
        """Return a chart of the number and its interval (an altair chart).

        `measured_in` names the unit of the column for the axis, e.g. `"minutes"`. Costs nothing:
        the picture shows what was released.

        Raises
        ------
        PictureError
            When altair is not installed: pip install 'dfprivacy[plot]'.
        """
        return readings_figure([self.reading()], measured_in)
