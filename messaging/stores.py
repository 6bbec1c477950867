"""Messages about stores and settings."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, TypeAdapter
from pydantic_core import PydanticCustomError

from domain.addresses import mailbox
from domain.origins import ORIGIN_LENGTH, check_origin
from domain.ratings import RatingMethod
from domain.reminders import MOST_TIMES
from domain.returns_numbers import check_template
from domain.returns_statuses import usable_statuses
from domain.review_urls import URL_LENGTH, check_review_url
from messaging.chosen_ids import NewStoreId
from messaging.cron import check_cron
from messaging.moderation_rules import ModerationRules
from messaging.schemas import (
    EMPTY_IS_MISSING,
    HIDDEN_INPUT,
    AtMost,
    ClosedMessage,
    LanguageTag,
    Name,
    NotBlank,
    OptionalId,
    PartialMessage,
    Readable,
    ReturnStatusName,
    usable,
)
from messaging.templates.messages import NotificationTemplateUpdate


def _check_statuses(names: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return usable_statuses(names)
    except ValueError as error:
        raise PydanticCustomError("invalid_statuses", "{reason}", {"reason": str(error)}) from error


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


NumberTemplate = Annotated[Name, usable(check_template, "invalid_template")]
Origin = Annotated[str, Field(max_length=ORIGIN_LENGTH), usable(check_origin, "invalid_origin")]
ReturnStatuses = Annotated[tuple[ReturnStatusName, ...], AtMost(100), AfterValidator(_check_statuses)]


class StoreSettingsUpdate(PartialMessage):
    """Settings of one store; omitted fields keep their values."""

    reviews_enabled: bool = False
    anonymous_reviews_allowed: bool = False
    purchase_required: bool = True
    one_review_per_customer: Annotated[
        bool, Field(description="true: a customer's second review of an object is refused")
    ] = False
    edits_keep_status: Annotated[
        bool, Field(description="true: a review that its author edits keeps its status; false: it becomes New again")
    ] = False
    rating_calculation_method: Annotated[RatingMethod | None, Field(description="null: the general setting")] = None
    return_number_template: Annotated[NumberTemplate | None, Field(description="null: the general setting")] = None
    review_url: Annotated[
        Annotated[str, Field(max_length=URL_LENGTH), usable(check_review_url, "invalid_url")] | None,
        Field(
            description="Template of the page where customers write reviews, for the links in reminders; null: no links"
        ),
    ] = None
    moderation_rules: Annotated[
        ModerationRules,
        Field(description="Rules for new and edited reviews, which replace all rules of the store; they never reject"),
    ] = ()
    storefront_origins: Annotated[
        tuple[Origin, ...],
        AtMost(100),
        Field(description="Origins of pages that may show and send reviews, like `https://shop.example`"),
    ] = ()


class StoreFields(PartialMessage):
    """A store with its settings; omitted fields keep their values."""

    id: Annotated[
        OptionalId, Field(description="If given, must be the id in the path, as in the response of a GET")
    ] = None
    name: Annotated[Annotated[Name, Readable] | None, EMPTY_IS_MISSING] = None
    email: (
        Annotated[
            str,
            Field(max_length=320, description="With or without a display name: `Shop <shop@example.org>`"),
            usable(mailbox, "invalid_address"),
        ]
        | None
    ) = None
    # A language can be given in two spellings.
    languages: Annotated[tuple[LanguageTag, ...], AtMost(100), AfterValidator(_distinct)] = ()
    settings: StoreSettingsUpdate = StoreSettingsUpdate()


class StoreUpdate(StoreFields):
    """A store by its id, with its changes."""

    id: NewStoreId
    user: Annotated[Name | None, Field(description="The caller, for the audit log")] = None
    command_id: OptionalId = None

    def changes(self) -> dict[str, Any]:
        """The fields that the message contains, by the names of the interface."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"id", "user", "command_id"})


class ReminderSettingsUpdate(PartialMessage):
    """The rules by which customers are asked for reviews; omitted fields keep their values."""

    enabled: bool = False
    cron: Annotated[
        str,
        Field(max_length=128, description="Cron expression of five fields, in UTC"),
        usable(check_cron, "invalid_cron"),
    ] = "*/15 * * * *"
    days_in_status: Annotated[int, Field(ge=0, le=3_650, description="Days in the status before a reminder is due")] = (
        10
    )
    order_status: Annotated[
        str, Field(max_length=128, description="Status of the orders that get a reminder"), NotBlank
    ] = "Complete"
    max_emails_per_customer: Annotated[
        int, Field(ge=0, le=MOST_TIMES, description="Maximum number of reminders per customer")
    ] = 2
    max_age_days: Annotated[
        int,
        Field(
            ge=0,
            le=3_650,
            description="No reminder after more days in the status than this and `daysInStatus`",
        ),
    ] = 30
    limit_period_days: Annotated[
        int | None, Field(ge=1, le=3_650, description="Period of `maxEmailsPerCustomer` in days; null: unlimited")
    ] = None


class GeneralSettingsFields(PartialMessage):
    """Settings for all stores; omitted fields keep their values."""

    rating_calculation_method: RatingMethod = RatingMethod.AVERAGE
    return_number_template: Annotated[NumberTemplate | None, Field(description="null: the default")] = None
    return_statuses: Annotated[
        ReturnStatuses | None,
        Field(description="Statuses that returns may have, including New and Canceled; null: the default"),
    ] = None
    reminder: ReminderSettingsUpdate = ReminderSettingsUpdate()


class GeneralSettingsUpdate(ClosedMessage):
    """A change of the settings for all stores."""

    general_settings: GeneralSettingsFields
    user: Annotated[Name | None, Field(description="The caller, for the audit log")] = None
    command_id: OptionalId = None

    def changes(self) -> dict[str, Any]:
        """The fields that the message contains, by the names of the interface."""
        return self.general_settings.model_dump(mode="json", by_alias=True, exclude_unset=True)


AnyStoreUpdate = StoreUpdate | GeneralSettingsUpdate | NotificationTemplateUpdate
STORE_UPDATE: TypeAdapter[AnyStoreUpdate] = TypeAdapter(AnyStoreUpdate, config=HIDDEN_INPUT)
