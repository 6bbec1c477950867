"""A cache of the compiled rules of stores."""

from collections import OrderedDict
from threading import Lock
from typing import Final

from domain.moderation_rules import MOST_CHARACTERS, ModerationRule, RuleSet

Rules = tuple[ModerationRule, ...]

_MOST_CACHED_CHARACTERS: Final = 32 * MOST_CHARACTERS
"""Maximum number of characters of all cached rules: gigabytes of memory at worst, and thousands of usual stores."""
_CHARACTERS_PER_SET: Final = 1_000
"""Characters that a rule set counts for beyond its words, so that sets without words are bounded, too."""


class RuleSets:
    """An LRU cache of rule sets. Thread-safe; two threads that miss at once may both compile the same set."""

    def __init__(self, most: int = _MOST_CACHED_CHARACTERS) -> None:
        self._most = most
        self._cached: OrderedDict[Rules, RuleSet] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def of(self, rules: Rules) -> RuleSet:
        """The compiled rules, compiled once per version of the settings while there is room. Compiling takes seconds
        for the largest number of words that a store may have."""
        with self._lock:
            if cached := self._cached.get(rules):
                self._cached.move_to_end(rules)
                return cached
        compiled = RuleSet(rules)
        with self._lock:
            self._size += _size(rules) if rules not in self._cached else 0
            self._cached[rules] = compiled
            while self._size > self._most and len(self._cached) > 1:
                self._size -= _size(self._cached.popitem(last=False)[0])
        return compiled


def _size(rules: Rules) -> int:
    return _CHARACTERS_PER_SET + sum(len(word) for rule in rules for word in rule.words)


rule_set: Final = RuleSets().of
