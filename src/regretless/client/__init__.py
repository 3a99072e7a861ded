"""A client of `regretless serve`: the verbs of a study over HTTP.

It needs only numpy, scipy and the standard library.  A call without an answer is repeated until an
answer arrives or `patience` seconds have passed.  All attempts have the same key, by which the
service recognises a repetition.  So no trial is asked for twice, and no result is stored twice.

`Traffic` serves many requests from one table of settings, without a call for each.
"""

from regretless.client.connection import Connection
from regretless.client.study import Client, RemoteEvent, RemoteStudy
from regretless.client.traffic import Assignment, Traffic, slot_of
from regretless.errors import ServiceError

__all__ = [
    "Assignment",
    "Client",
    "Connection",
    "RemoteEvent",
    "RemoteStudy",
    "ServiceError",
    "Traffic",
    "slot_of",
]
