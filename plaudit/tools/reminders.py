"""`plaudit reminders`: previews a run of the scheduler, or makes one."""

from collections import Counter
from datetime import UTC, datetime

from domain.quantities import quantity
from domain.reminders import Decided, Reminder
from domain.stores import ReminderSettings
from domain.timestamps import timestamp
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.errors import CommandError
from plaudit.processes.scheduler import reminder_job
from plaudit.terminal import Terminal, shown
from plaudit.tools.servers import reached
from storage.leases import REMINDERS, LeaseRepository
from storage.reminders.decisions import preview
from storage.stores import StoreRepository


async def show_preview(settings: Settings, out: Terminal, now: datetime | None) -> None:
    """Print the decision on every order in the status that reminders are for."""
    moment = now or datetime.now(UTC)
    async with reached(settings) as (database, _):
        reminder = (await StoreRepository(database).general()).reminder
        out.print(shown(f"At {timestamp(moment)}: {_rule(reminder)}"))
        counts: Counter[str] = Counter()
        async for decided in preview(database, reminder, moment, needs_email=settings.smtp.needs_email):
            counts["reminded" if isinstance(decided.decision, Reminder) else decided.decision.value] += 1
            out.add_row("orders", _row(decided))
            out.print(shown(_line(decided)))
    out.set_result({"at": timestamp(moment), "enabled": reminder.enabled, "counts": dict(counts), "orders": []})
    out.print(f"{counts.pop('reminded', 0)} would be reminded. ", end="")
    others = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
    out.print(f"{sum(counts.values())} would not{f': {others}' if others else ''}.")
    if not reminder.enabled:
        out.print("Reminders are disabled: no mail is sent until `reminder.enabled` is set.")


async def run_once(settings: Settings, out: Terminal, progress: Terminal, now: datetime | None) -> None:
    """Send the reminders that are due. Raises ConfigurationError. Raises CommandError: the run failed."""
    settings.smtp.checked_sender()
    async with reached(settings, Topic.MAIL_COMMANDS, Topic.EVENTS) as (database, publisher):
        if not (await StoreRepository(database).general()).reminder.enabled:
            out.set_result({"enabled": False, "sent": 0, "skipped": {}, "failed": 0, "damaged": 0})
            out.print("Reminders are disabled: set `reminder.enabled`. Nothing was sent.")
            return
        job = reminder_job(settings, database, publisher)
        with progress.status("Sending reminders"):
            leases = LeaseRepository(database)
            at = now or await leases.now()
            report = await job.run(at)
            if not report.is_failure:
                await leases.note_done(REMINDERS, at)
    problems = {"failed": report.failed, "damaged": report.damaged}
    out.set_result({"enabled": True, "sent": report.reminders, "skipped": report.skipped, **problems})
    reasons = [*report.skipped.most_common(), *problems.items()]
    skipped = ", ".join(f"{count} {reason}" for reason, count in reasons if count)
    sent = f"Sent {quantity(report.reminders, 'reminder')}{f'; skipped {skipped}' if skipped else ''}."
    if report.is_failure:
        raise CommandError(f"{sent} The run failed; see the log. Orders that are still due wait for the next run.")
    out.print(sent)


def _rule(reminder: ReminderSettings) -> str:
    days, limit, period = reminder.days_in_status, reminder.max_emails_per_customer, reminder.limit_period_days
    within = f" within {quantity(period, 'day')}" if period else ""
    return (
        f"orders in status {reminder.order_status} for {quantity(days, 'day')}, "
        f"and for at most {days + reminder.max_age_days}; "
        f"at most {quantity(limit, 'reminder')} for each customer{within}."
    )


def _row(decided: Decided) -> dict[str, object]:
    order, decision = decided.order, decided.decision
    return {
        "orderId": order.id,
        "orderNumber": order.number,
        "customerId": order.customer.id,
        "decision": "reminded" if isinstance(decision, Reminder) else decision.value,
        "to": decision.to if isinstance(decision, Reminder) else None,
    }


def _line(decided: Decided) -> str:
    order, decision = decided.order, decided.decision
    what = f"order {order.id}{f' ({order.number})' if order.number else ''}, customer {order.customer.id or '-'}"
    if isinstance(decision, Reminder):
        return f"remind  {what}, {decision.to}: {', '.join(item.name for item in decision.items)}"
    return f"skip    {what}: {decision.value}"
