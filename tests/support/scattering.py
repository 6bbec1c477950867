"""The functions of `storage/` whose queries may ask every shard of a cluster, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_REASONS: Final[Mapping[str, Sequence[str]]] = {
    "A page across objects: each shard answers from its index, and the router merges.": (
        "audit.AuditLog.count",
        "audit.AuditLog.every",
        "audit.AuditLog.search",
        "orders.OrderRepository.page",
        "ratings_objects.RatedObjectRepository.found",
        "ratings_objects.RatedObjectRepository.listed",
        "reviews.ReviewRepository.count",
        "reviews.ReviewRepository.search",
        "reviews_ranked.ranked",
        "reviews_queue.Queue.holds",
        "ratings.RatingRepository.count_reviews",
        "feedback_reports.reported_reviews",
    ),
    "What belongs to one object or review is spread by ids of its own: few ask for it.": (
        "ratings.RatingRepository.recount",
        "ratings_objects.RatedObjectRepository.name_in_reviews",
        "ratings_objects.RatedObjectRepository.trend",
        "feedback_reports.ReportRepository.count",
        "feedback_reports.ReportRepository.page",
        "feedback_reports.ReportRepository.settle",
        "feedback_reports.ReportRepository.settle_some",
        "reviews.ReviewRepository.fill_names",
    ),
    "What a deleted review leaves behind, once.": (
        "claims.ClaimRepository.free",
        "feedback_reports.ReportRepository.remove_of",
        "images.ImageRepository.give_up_of_reviews",
        "moderation_rules.TextRepository.forget",
    ),
    "One query for a batch of submissions or orders: what customers have bought or written is spread by its ids.": (
        "purchases.PurchaseRepository.made",
        "purchases.PurchaseRepository.reviews_of",
        "review_tokens.ReviewTokenRepository.reviewed",
        "reviews.ReviewRepository.reviewed",
        "reviews.ReviewRepository.written_by",
    ),
    "Everything of one person, asked for by that person or forgotten.": (
        "audit.AuditLog.forget_author",
        "feedback_reports.ReportRepository.forget_person",
        "feedback_reports.ReportRepository.of_person",
        "feedback_votes.VoteRepository.of_voter",
        "images.ImageRepository.of_person",
        "orders.OrderRepository.ids_of_customer",
        "privacy.PersonalData.images",
        "privacy.PersonalData.order_ids",
        "privacy.PersonalData.review_ids",
        "review_tokens.ReviewTokenRepository.forget_customer",
        "review_tokens.ReviewTokenRepository.of_customer",
        "reviews.ReviewRepository.by_user",
    ),
    "What is due, at most every few seconds.": (
        "images.ImageRepository.give_up_unused",
        "images.ImageRepository.gone_before",
        "images.ImageRepository.unswept",
        "moderation_rules.PublicationRepository.due",
        "outbox.Outbox._overdue",
        "ratings_objects.RatedObjectRepository.name",
        "ratings_objects.RatedObjectRepository.unnamed",
        "reminders.ReminderRepository.due",
        "reminders.ReminderRepository.in_status",
        "reminders.ReminderRepository.others",
        "reviews.ReviewRepository.forget_gone",
        "reviews.ReviewRepository.wanted_names",
    ),
    "A number, or whether there is any, asked for every few seconds at most.": (
        "backlog._first",
        "backlog._number",
        "checks._owed",
        "objects.ObjectRepository.is_any_closed",
        "schema.SchemaMarks._is_fresh",
    ),
    "All of it is read: by a tool, a feed, the relay or a report.": (
        "audit.AuditLog.entities_moderated_since",
        "audit_archives.AuditArchives.entries_before",
        "mending.Mender._damaged",
        "mending.Mender.all",
        "mending.Mender.count",
        "mending.Mender.mend",
        "mending.Mender.slices",
        "migrations._count",
        "migrations._next",
        "policy.DecisionCounts.of_stores",
        "policy.DecisionCounts.report",
        "ratings.RatingRepository._differences",
        "ratings.RatingRepository._entities",
        "ratings.RatingRepository.differences",
        "ratings.RatingRepository.entities",
        "ratings.RatingRepository.entities_recounted_since",
        "reviews.ReviewRepository.entities_reviewed_since",
        "reviews.ReviewRepository.extent",
        "reviews.ReviewRepository.stream",
        "reviews_changes.ReviewChanges.opened",
        "reviews_changes.ReviewChanges.page",
        "reviews_exports.FeedbackExport.reports",
    ),
}

SCATTERING: Final[Mapping[str, str]] = {
    function: reason for reason, functions in _REASONS.items() for function in functions
}
