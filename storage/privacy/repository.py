"""The data of one person: finding and forgetting it."""

import re
from collections.abc import AsyncIterator, Collection
from functools import partial
from typing import Final

from domain.feedback import Feedback, Vote, VoteKey
from domain.feedback_reports import Report
from domain.images import StoredImage
from domain.moderation import Moderation
from domain.privacy import MessageSearch, return_command_without_customer
from domain.reminders import SentReminders
from domain.reviews import Review
from messaging.images import ReceivedImageCommand
from storage.audit import AuditEntry
from storage.database import Database, Document, Session, in_transaction
from storage.id_ranges import TEXTS, found_in_ranges
from storage.mails import COLLECTION as MAILS
from storage.mails import MailRepository
from storage.parking import COLLECTION as PARKED_COMMANDS
from storage.parking import FEEDBACK, IMAGES, MODERATION, readable
from storage.privacy.orders import PersonalOrders
from storage.reminders.repository import CUSTOMERS
from storage.repositories import Repositories
from storage.returns.parking import ParkedValue
from storage.review_tokens import TokenUse
from storage.reviews.documents import MODERATED, is_moderatable
from storage.reviews.repository import COLLECTION as REVIEWS
from storage.reviews.shape import HAS_TEXT_ID, IS_REVIEW

_NO_COMMAND: Final = b"{}"
"""The value that a waiting command keeps if it can't be read: it has no effect in any case."""

_PAGE: Final = 1_000
"""The maximum number of votes forgotten in one transaction."""


class PersonalData:
    """Finds the data of one customer, and forgets it, except for reviews, which their consumer deletes. `orders` are
    their orders with the returns."""

    def __init__(self, database: Database, customer_id: str) -> None:
        self._database = database
        self._repositories = Repositories(database)
        self._customer = customer_id
        self._damaged = set[str]()
        self.orders: Final = PersonalOrders(database, customer_id)

    @property
    def damaged(self) -> set[str]:
        """Damaged documents, by kind and id: reviews that were removed, and returns and waiting returns from which the
        person was removed."""
        return self._damaged | self.orders.damaged

    async def reviews(self) -> list[Review]:
        """Their reviews, in any store and status."""
        return await self._repositories.reviews.by_user(self._customer)

    async def review_ids(self, limit: int) -> list[str]:
        """The ids of at most `limit` of their reviews. Those that aren't texts are left out: no command has them."""
        found = self._database[REVIEWS].find({"userId": self._customer, **HAS_TEXT_ID}, {"_id": 1}).limit(limit)
        return [document["_id"] async for document in found]

    async def undeletable_reviews(self, ids: Collection[str]) -> list[str]:
        """Those of these reviews that no command can delete, because they are damaged."""
        documents = self._database[REVIEWS].find({"_id": {"$in": list(ids)}, **IS_REVIEW}, MODERATED)
        return [document["_id"] async for document in documents if not is_moderatable(document)]

    async def remove_damaged_reviews(self) -> int:
        """Remove their reviews whose ids aren't texts, which count in no rating; returns the number."""
        theirs: Document = {"userId": self._customer, "$nor": [HAS_TEXT_ID]}
        ids = [document["_id"] async for document in self._database[REVIEWS].find(theirs, {"_id": 1})]
        self._damaged.update(f"review {id}" for id in ids)
        return (await self._database[REVIEWS].delete_many({"_id": {"$in": ids}})).deleted_count

    async def reminders(self) -> SentReminders:
        """The reminders sent to them; none if their number is damaged."""
        sent = await self._repositories.reminders.sent_to([self._customer])
        return sent.of_customers.get(self._customer, SentReminders())

    async def used_tokens(self) -> list[TokenUse]:
        """The review tokens that they used."""
        return await self._repositories.review_tokens.of_customer(self._customer)

    async def images(self) -> list[StoredImage]:
        """The images that they uploaded, and those of their reviews."""
        reviews = self._database[REVIEWS].find({"userId": self._customer}, {"_id": 1})
        ids = [each["_id"] async for each in reviews]
        return await self._repositories.images.of_person(self._customer, ids)

    async def waiting_mails(self) -> list[bytes]:
        """The mails to them that have not been sent yet."""
        return [document["record"]["value"] async for document in self._unsent_mails("record.value")]

    async def audit_entries(self) -> list[AuditEntry]:
        """Their moderation and edits of reviews in the audit log, newest first; erasures keep the moderation."""
        return await self._repositories.audit.of_subject(self._customer)

    async def parked_returns(self) -> list[ParkedValue]:
        """Their commands about returns that wait for an order."""
        search = MessageSearch(self._customer, ())
        return [parked for parked in await self._repositories.parked_returns.values() if search.is_about(parked.value)]

    async def parked_commands(self) -> list[Moderation]:
        """The moderation commands that came from them or name them, and wait for a review."""
        found = self._database[PARKED_COMMANDS].find({**MODERATION.all, **self._parked_filter()})
        return await readable(MODERATION, found)

    async def parked_image_commands(self) -> list[ReceivedImageCommand]:
        """The image commands that came from them or name them, and wait for a review."""
        found = self._database[PARKED_COMMANDS].find({**IMAGES.all, **self._parked_filter()})
        return await readable(IMAGES, found)

    async def forget_parked(self) -> int:
        """Remove them from waiting commands, which then take effect without their words and name, and without reasons
        that name them; returns the number of commands."""
        returns = await self.parked_returns()
        for each in returns:
            value = return_command_without_customer(each.value, self._customer)
            if value is None:
                self._damaged.add(f"waiting return {each.key}")
            await self._repositories.parked_returns.rewrite(each, value or _NO_COMMAND)
        commands = self._database[PARKED_COMMANDS]
        forgotten = await commands.update_many(self._parked_filter(), {"$set": {"reason": None}})
        await commands.update_many({"moderator": self._customer}, {"$set": {"moderator": None}})
        renamed = await commands.update_many(self._moderator_filter, {"$set": {"command.moderator": None}})
        return len(returns) + forgotten.matched_count + renamed.matched_count

    async def forget_mails(self) -> int:
        """Give up the mails to them that have not been sent; their ids stay taken. Returns the number."""
        ids = [document["_id"] async for document in self._unsent_mails("_id")]
        mails = MailRepository(self._database)
        return await mails.give_up(ids, await mails.now())

    async def forget_reminders(self) -> int:
        """Forget how many reminders they got; returns that number."""
        sent = await self.reminders()
        await self._database[CUSTOMERS].delete_one({"_id": self._customer})
        return sent.count

    async def forget_tokens(self) -> int:
        """Remove them from the review tokens that they used, which stay used; returns the number."""
        return await self._repositories.review_tokens.forget_customer(self._customer)

    async def forget_images(self) -> int:
        """Give up the images that they uploaded, even if no review names them; returns the number.

        Nobody can fetch them from now on; a worker removes the files, and retries until the image store has done
        it.
        """
        images = await self.images()
        for image in images:
            await in_transaction(self._database, partial(self._forget_image, image.id))
        return len(images)

    async def votes(self) -> list[tuple[VoteKey, Vote]]:
        """Their votes on reviews, without withdrawn ones."""
        found = await self._repositories.votes.of_voter(self._customer)
        return [each for each in found if each[1].helpful is not None]

    async def reports(self) -> list[Report]:
        """Their reports about reviews, by their id or by one of their mail addresses."""
        return await self._repositories.reports.of_person(self._customer, await self.orders.addresses())

    async def parked_feedback(self) -> list[Feedback]:
        """Their votes and reports that wait for a review, and the replies that they write or withdraw."""
        commands = self._database[PARKED_COMMANDS]
        own = await readable(FEEDBACK, self._parked_feedback(await self.orders.addresses()))
        return own + await readable(FEEDBACK, commands.find(self._moderator_filter))

    async def forget_votes(self) -> int:
        """Remove their votes, and subtract them from the counters of the reviews; returns the number of votes."""
        votes = 0
        while forgotten := await in_transaction(self._database, self._forget_votes):
            votes += forgotten
        return votes

    async def forget_reports(self) -> int:
        """Remove them and their words from their reports, which keep the reasons; returns the number of reports."""
        return await self._repositories.reports.forget_person(self._customer, await self.orders.addresses())

    async def remove_parked_feedback(self) -> int:
        """Remove their votes and reports that wait for a review; returns the number."""
        waiting = [document["_id"] async for document in self._parked_feedback(await self.orders.addresses())]
        return (await self._database[PARKED_COMMANDS].delete_many({"_id": {"$in": waiting}})).deleted_count

    async def forget_in_audit_log(self) -> int:
        """Remove their name from the audit log's entries of edits and deleted returns; returns their number."""
        return await self._repositories.audit.forget_author(self._customer)

    async def _forget_image(self, id: str, session: Session) -> None:
        images = self._repositories.images
        # Read again: a review may have claimed it meanwhile.
        review_id = await images.review_of(id, session)
        await images.give_up([id], session)
        if review_id is not None:
            await self._repositories.review_images.remove(review_id, id, session)

    async def _forget_votes(self, session: Session) -> int:
        """Remove some of their votes; returns how many, 0 once there are none."""
        votes = self._repositories.votes
        found = await votes.of_voter(self._customer, _PAGE, session)
        await self._repositories.feedback.subtract_votes({key.review_id: vote for key, vote in found}, session)
        await votes.remove([key for key, _ in found], session)
        return len(found)

    @property
    def _moderator_filter(self) -> Document:
        """The filter for waiting replies and withdrawals that they made as moderators."""
        return {**FEEDBACK.all, "command.moderator": self._customer}

    async def _parked_feedback(self, addresses: Collection[str]) -> AsyncIterator[Document]:
        """The documents of their waiting feedback, by their id or one of these addresses in any letter case."""
        names = {address.casefold() for address in addresses}
        named = {"$or": [{"command.userId": self._customer}, {"command.email": {"$exists": True}}]}
        async for document in self._database[PARKED_COMMANDS].find({**FEEDBACK.all, **named}):
            stored = document["command"]
            # Of a damaged command, there may be several parts.
            for command in stored if isinstance(stored, list) else [stored]:
                email = command.get("email") if isinstance(command, dict) else None
                is_theirs = isinstance(email, str) and email.casefold() in names
                if is_theirs or (isinstance(command, dict) and command.get("userId") == self._customer):
                    yield document
                    break

    def _unsent_mails(self, field: str) -> AsyncIterator[Document]:
        """Their mails that have not been sent, with one field. MongoDB scans all mails."""
        return found_in_ranges(self._database[MAILS], TEXTS, {"record.key": self._customer.encode()}, {field: 1})

    def _parked_filter(self) -> Document:
        named = {"$regex": rf"(?<![\w-]){re.escape(self._customer)}(?![\w-])"}
        return {"$or": [{"moderator": self._customer}, {"reason": named}]}
