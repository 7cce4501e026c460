"""What JSON can say, as a type. Knows nothing else: who needs only this loads no more."""

from __future__ import annotations

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]
