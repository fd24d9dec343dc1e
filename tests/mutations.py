"""Documents that are well-formed and wrong: every part of a good one left out, or something else."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

NESTED: Any = 7
for _ in range(50):
    NESTED = [NESTED]
WRONG = (None, -1, 2**70, 1e308, float("nan"), True, "text", "../../x", [], {}, [1], NESTED, {"name": []})
Place = tuple[str | int, ...]


def mutations(
    document: Any, wrong: Sequence[Any] = WRONG, depth: int = 10, most_items: int = 2
) -> Iterator[tuple[str, Any]]:
    """Pairs of a description and a copy of the document with one change; of lists, the first items' only."""
    for place in _places(document, depth, most_items):
        removed = copy.deepcopy(document)
        del _inside(removed, place[:-1])[place[-1]]
        yield f"{place} left out", removed
        for value in wrong:
            changed = copy.deepcopy(document)
            _inside(changed, place[:-1])[place[-1]] = copy.deepcopy(value)
            yield f"{place} = {str(value)[:30]}", changed


def _places(document: Any, depth: int, most_items: int) -> Iterator[Place]:
    inner: list[tuple[str | int, Any]] = []
    if isinstance(document, dict):
        inner = list(document.items())
    elif isinstance(document, list):
        inner = list(enumerate(document))[:most_items]
    for key, value in inner:
        yield (key,)
        if depth > 1:
            yield from ((key, *rest) for rest in _places(value, depth - 1, most_items))


def _inside(document: Any, place: Place) -> Any:
    for key in place:
        document = document[key]
    return document
