"""Who may do what: bearer tokens from a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from pathlib import Path

from regretless.errors import ConfigError

READ, WRITE = "read-only", "read-write"
MIN_LENGTH = 20  # characters of a token


@dataclass(frozen=True)
class Tokens:
    """Which tokens may read, and which may also write.  Only their digests are kept."""

    digests: tuple[tuple[bytes, str], ...] = field(default=(), repr=False)

    @classmethod
    def from_file(cls, path: Path) -> Tokens:
        """Read a file with one token per line, after the word `read-only` or `read-write`.

        Lines that begin with # are comments.

        Raises:
            ConfigError: the file cannot be read, holds no token, or has a line of another form or
                with a token of fewer than 20 characters.
        """
        try:
            lines = path.read_text(encoding="ascii").splitlines()
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{path}: a token is plain ASCII") from None
        written = [(n, line.split()) for n, line in enumerate(lines, 1) if not _is_empty(line)]
        if not written:
            raise ConfigError(f"{path}: holds no token")
        return cls(tuple(_digest(path, n, words) for n, words in written))

    def __bool__(self) -> bool:
        return bool(self.digests)

    def right(self, authorization: str) -> str | None:
        """What the bearer of this header may do; None if the token is unknown.

        All digests are compared, each in constant time.  So the time that the call takes does not
        reveal how much of a token was right, or which token it was.
        """
        scheme, _, token = authorization.partition(" ")
        given = sha256(token.strip().encode()).digest()
        found = [right for digest, right in self.digests if compare_digest(given, digest)]
        return found[0] if found and scheme.lower() == "bearer" else None


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


def _is_empty(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _digest(path: Path, number: int, words: list[str]) -> tuple[bytes, str]:
    """The digest of one line.  No message repeats the line, because it has a secret."""
    if len(words) != 2 or words[0] not in (READ, WRITE):
        raise ConfigError(f"{path}, line {number}: need '{READ} TOKEN' or '{WRITE} TOKEN'")
    if len(words[1]) < MIN_LENGTH:
        raise ConfigError(f"{path}, line {number}: need at least {MIN_LENGTH} characters")
    return sha256(words[1].encode()).digest(), words[0]
