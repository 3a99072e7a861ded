"""A client of `regretless serve`: the verbs of a study over HTTP.

It needs only numpy, scipy and the standard library.  A call without an answer is repeated until an
answer arrives or `patience` seconds have passed.  All attempts have the same key, by which the
service recognises a repetition.  So no trial is asked for twice, and no result is stored twice.
"""

from regretless.client.connection import Connection
from regretless.client.study import Client, RemoteEvent, RemoteStudy
from regretless.errors import ServiceError

__all__ = ["Client", "Connection", "RemoteEvent", "RemoteStudy", "ServiceError"]
