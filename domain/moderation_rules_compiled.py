"""The compiled rules of stores, kept for those that are asked for again."""

from collections import OrderedDict
from threading import Lock
from typing import Final

from domain.moderation_rules import MOST_CHARACTERS, ModerationRule, RuleSet

Rules = tuple[ModerationRule, ...]

_MOST: Final = 32 * MOST_CHARACTERS
"""Characters of all kept rules together: gigabytes of memory at the very most, and thousands of usual stores."""
_EACH: Final = 1_000
"""So many characters a set counts for beside its words: also those without any are bounded."""


class RuleSets:
    """The rule sets that were used last. For several threads: two that ask at once may compile the same one."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[Rules, RuleSet] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def of(self, rules: Rules) -> RuleSet:
        """The compiled rules, made once for each version of the settings while there is room for them. That takes
        seconds for the most words that a store may have."""
        with self._lock:
            if kept := self._kept.get(rules):
                self._kept.move_to_end(rules)
                return kept
        made = RuleSet(rules)
        with self._lock:
            self._size += _size(rules) if rules not in self._kept else 0
            self._kept[rules] = made
            while self._size > self._most and len(self._kept) > 1:
                self._size -= _size(self._kept.popitem(last=False)[0])
        return made


def _size(rules: Rules) -> int:
    return _EACH + sum(len(word) for rule in rules for word in rule.words)


rule_set: Final = RuleSets().of
