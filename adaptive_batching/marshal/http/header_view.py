"""Headers as formats look at them: by names in lower case, without a copy for each request."""

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any

from multidict import MultiMapping


class HeaderView(Mapping[str, str]):
    """Some headers, of each name the first.

    Args:
        headers: As they came.
    """

    __slots__ = ("_headers", "get")

    def __init__(self, headers: MultiMapping[str]) -> None:
        self._headers = headers
        self.get: Any = headers.get  # the C method, and no detour

    def __getitem__(self, name: str) -> str:
        return self._headers[name]

    def __contains__(self, name: object) -> bool:
        return name in self._headers

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(map(str.lower, self._headers)))

    def items(self) -> ItemsView[str, str]:
        """All of them as they came, those of one name too."""
        return self._headers.items()

    def __len__(self) -> int:
        return len({*self})
