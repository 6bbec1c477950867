"""The size of MongoDB's answers about a batch of messages."""

from typing import Final

ONE_ANSWER: Final = 1_001
"""The batch size of a query by a thousand ids. Without it an answer holds 101 documents, and the others are asked for
again. One more than wanted, by which the server knows that there are no others."""
