"""The batch size of queries for a batch of messages."""

from typing import Final

ONE_ANSWER: Final = 1_001
"""The batch size of a query by a thousand ids. By default the first batch has 101 documents, and a second request
fetches the rest. One more than wanted, so that the server knows that the cursor is exhausted."""
