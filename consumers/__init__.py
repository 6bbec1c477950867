"""Kafka consumers: each loads the state for a batch, lets the domain decide, and writes the result.

`Inbox` delivers each record at least once, in the order of its partition. A record takes effect once: a redelivered one
is recognised by what was stored with its effect. Consumers that decide about several documents write all that belongs
to a batch in one transaction: documents, tallies, audit entries, answers, and events for the outbox.
"""
