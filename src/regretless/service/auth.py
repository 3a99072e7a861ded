"""Who may do what: bearer tokens from a file, and links that are signed with one of them."""

from __future__ import annotations

import logging
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from ipaddress import ip_address
from math import ceil
from pathlib import Path

from regretless._internal.shown import shown
from regretless._internal.validate import check_name, is_number
from regretless.errors import ConfigError

READ, WRITE = "read-only", "read-write"
MIN_LENGTH = 20  # characters of a token
MAX_NAME = 100  # characters of the name of a token
MAX_LINK = 2000  # characters
MAX_DAYS = 36_500
LINK = "link"  # what the token of a link begins with
DAY = 86_400.0  # seconds
RACE_NS = 2 * 10**9  # a file that is younger may change again without a newer time

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bearer:
    """Who sends a request.

    Attributes:
        right: "read-only" or "read-write".
        name: the name of the token; None if it has none.
        study: the only study that a link may read; None for all.
        who: the same for all requests with this token, to count them.
    """

    right: str
    name: str | None = None
    study: str | None = None
    who: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Token:
    """A line of the file.  Only the digest of the token is kept."""

    digest: bytes = field(repr=False)
    right: str
    name: str | None = None


class Tokens:
    """Which tokens may read, and which may also write.

    Tokens from a file are read again when the file changes.  If it cannot be read then, or has a
    mistake, the tokens from before stay, and the log says so.
    """

    def __init__(self, known: tuple[Token, ...] = (), path: Path | None = None) -> None:
        self._known, self._path = known, path
        self._seen: object = None  # the file's size and times when it was read
        self._reading = threading.Lock()
        if path is not None:
            self._seen = _stamp(path)

    @classmethod
    def from_file(cls, path: Path) -> Tokens:
        """Read a file with one token per line: `read-only` or `read-write`, the token, its name.

        The name may be left out.  Several tokens may have the same one.  Lines that begin with #
        are comments.

        Raises:
            ConfigError: the file cannot be read, holds no token, or has a line of another form or
                with a token of fewer than 20 characters.
        """
        tokens = cls(path=path)  # before it is read, because it may change meanwhile
        tokens._known = _read(path)
        return tokens

    def __bool__(self) -> bool:
        return bool(self._known)

    def __repr__(self) -> str:
        return f"Tokens({', '.join(f'{one.right} {one.name}' for one in self._known)})"

    def bearer(self, authorization: str) -> Bearer | None:
        """Who sends this header; None if the token is unknown, or the link has ended.

        All digests are compared, each in constant time.  So the time that the call takes does not
        reveal how much of a token was right, or which token it was.
        """
        self._renew()
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = given.strip()
        digest = sha256(token.encode()).digest()
        found = [one for one in self._known if compare_digest(digest, one.digest)]
        if found:
            return Bearer(found[0].right, found[0].name, None, found[0].digest)
        return self._of_link(token)

    def link_by(self, authorization: str, study: str, days: float) -> str | None:
        """A token for a link, signed with the token of this header; None if there are no tokens.

        Raises:
            ConfigError: the header has no token of the file, or an argument is not valid.
        """
        if not self:
            return None
        bearer = self.bearer(authorization)
        signers = [one for one in self._known if bearer is not None and one.digest == bearer.who]
        if not signers:
            raise ConfigError("link: only a token of the token file can sign a link")
        return _signed(signers[0], study, days)

    def link(self, study: str | None, days: float, name: str | None = None) -> str:
        """A token for a link to the page: it can read, and ends by itself.

        It is signed with a token of the file, and ends with that one, too.

        Args:
            study: the only study that it can read; None for all.
            days: after how many days it ends.
            name: the name of the token to sign with; None for the first one.

        Raises:
            ConfigError: there is no such token, or an argument is not valid.
        """
        signers = [one for one in self._known if name is None or one.name == name]
        if not signers:
            raise ConfigError(f"name: the token file has no token named {shown(name)}")
        return _signed(signers[0], study, days)

    def _of_link(self, token: str) -> Bearer | None:
        said, _, signature = token.rpartition(".")
        parts = said.split(".")
        if len(token) > MAX_LINK or len(parts) != 3 or parts[0] != LINK:
            return None
        signers = [
            one
            for one in self._known
            if compare_digest(_signature(one, said).encode(), signature.encode())
        ]
        # What is signed was written by `link`, so it can be read.
        if not signers or float(parts[1]) < time.time():
            return None
        return Bearer(READ, signers[0].name, _from_text(parts[2]).decode() or None)

    def _renew(self) -> None:
        """Read the file again if it has changed."""
        if self._path is None:
            return
        with self._reading:
            stamp = _stamp(self._path)
            if stamp is not None and stamp == self._seen:
                return
            self._seen = stamp
            try:
                self._known = _read(self._path)
            except ConfigError as error:
                _log.warning("the tokens from before stay: %s", error)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a service that listens at this host."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """Whether the host is an IP address and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What changes when the file changes; None if that cannot be known: it is read each time."""
    try:
        status = path.stat()
    except OSError:
        return None
    if time.time_ns() - status.st_mtime_ns < RACE_NS:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _read(path: Path) -> tuple[Token, ...]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: a token must be plain ASCII") from None
    written = [(n, line.split()) for n, line in enumerate(lines, 1) if not _is_empty(line)]
    if not written:
        raise ConfigError(f"{path}: the file has no token; write a line with one")
    return tuple(_token(path, n, words) for n, words in written)


def _is_empty(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _token(path: Path, number: int, words: list[str]) -> Token:
    """The token of one line.  No message repeats the line, because it has a secret."""
    if len(words) not in (2, 3) or words[0] not in (READ, WRITE):
        raise ConfigError(
            f"{path}, line {number}: need '{READ} TOKEN' or '{WRITE} TOKEN', and a name if you like"
        )
    if len(words[1]) < MIN_LENGTH:
        raise ConfigError(f"{path}, line {number}: need at least {MIN_LENGTH} characters")
    name = words[2] if len(words) == 3 else None
    if name is not None and not (name.isprintable() and len(name) <= MAX_NAME):
        raise ConfigError(f"{path}, line {number}: the name: at most {MAX_NAME} printable letters")
    return Token(sha256(words[1].encode()).digest(), words[0], name)


def _signed(signer: Token, study: str | None, days: float) -> str:
    """The token of a link."""
    if not (is_number(days) and 0 < days <= MAX_DAYS):
        raise ConfigError(f"days: need more than 0, at most {MAX_DAYS}, got {shown(days)}")
    if study is not None:
        check_name("study", study)
    until = ceil(time.time() + days * DAY)
    said = f"{LINK}.{until}.{_to_text((study or '').encode())}"
    return f"{said}.{_signature(signer, said)}"


def _signature(signer: Token, said: str) -> str:
    return _to_text(hmac_digest(signer.digest, said.encode(), "sha256"))


def _to_text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _from_text(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
