"""The processes: API, worker, scheduler and mailer, and what they share."""
