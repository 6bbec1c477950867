"""Unique keys: only one review can have each, such as the key of a customer's only review of an object."""

import json
from hashlib import sha256

from domain.reviews import ReviewIdentity


def only_review_key(identity: ReviewIdentity) -> str:
    """The key of the only review that a customer may write of an object in a store. It names nobody."""
    identity_json = json.dumps([identity.store_id, *identity.entity, identity.user_id])
    return f"only-review/{sha256(identity_json.encode()).hexdigest()}"
