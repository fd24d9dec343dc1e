"""The facts that a message must contain in any wording: names, values, numbers, commands."""

import re

Facts = str | tuple[str, ...]  # one fact, or the several of a table's row


def assert_mentions(text: str, *facts: Facts) -> None:
    """Fails unless the text holds every fact as whole words; their order does not matter."""
    missing = [fact for fact in _each(facts) if not re.search(mentions(fact), text)]
    assert not missing, f"{missing} not in {text!r}"


def mentions(*facts: Facts) -> str:
    """The same as a pattern for `pytest.raises(match=...)`."""
    return r"(?s)\A" + "".join(f"(?=.*{_whole_words(fact)})" for fact in _each(facts))


def _each(facts: tuple[Facts, ...]) -> list[str]:
    return [fact for some in facts for fact in ((some,) if isinstance(some, str) else some)]


def _whole_words(fact: str) -> str:
    before = r"(?<!\w)" if re.match(r"\w", fact) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", fact) else ""
    return before + r"\s+".join(map(re.escape, fact.split())) + after
