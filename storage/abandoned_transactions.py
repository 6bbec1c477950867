"""Transactions that a process began and can't end any more, because it was killed."""

from __future__ import annotations

from datetime import timedelta

from pymongo.errors import OperationFailure

from storage.database import APP_NAME, Database, is_database_away


async def abort_abandoned(database: Database, idle: timedelta) -> int:
    """Abort our transactions that nobody has gone on with for so long; returns how many.

    MongoDB keeps them for a minute, and whatever they wrote can't be written by others until then. To a process that
    is alive but slow it is a conflict like any other: it begins again. Where the server doesn't let us look at our own
    sessions, none is found.
    """
    admin = database.client.admin
    abandoned = {
        "type": "idleSession",
        "appName": APP_NAME,
        "transaction.timeInactiveMicros": {"$gte": idle // timedelta(microseconds=1)},
    }
    look = {"$currentOp": {"allUsers": False, "idleSessions": True}}
    try:
        found = await admin.aggregate([look, {"$match": abandoned}, {"$project": {"id": "$lsid.id"}}])
        sessions = [{"id": operation["id"]} async for operation in found]
        if sessions:
            await admin.command("killSessions", sessions)
    except OperationFailure as error:
        if is_database_away(error):
            raise
        return 0
    return len(sessions)
