"""How often one client may change something."""

from __future__ import annotations

import time
from ipaddress import IPv6Address, ip_address, ip_network

CHANGES_PER_SECOND = 100.0
BURST_SECONDS = 10.0  # a client that was idle may send the changes of so many seconds at once
MANY = 10_000  # clients, before those that are idle are forgotten


class Rate:
    """So many changes a second for each client, on average.

    Args:
        per_second: the most changes a second; 0 for no limit.

    Example:
        >>> rate = Rate(per_second=0.1)  # and at most one at once
        >>> rate.wait("somebody"), rate.wait("somebody") > 9, rate.wait("another")
        (0.0, True, 0.0)
    """

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        # For each client, the moment at which all of its changes so far would have been made, one
        # after the other at this rate.
        self._done: dict[str | bytes, float] = {}

    def wait(self, who: str | bytes) -> float:
        """After how many seconds the client may make a change; if it may now (0), count one."""
        if not self.per_second:
            return 0.0
        now, one = time.monotonic(), 1.0 / self.per_second
        done = max(now, self._done.get(who, now)) + one
        early = done - now - max(BURST_SECONDS, one)
        if early > 1e-9:
            return early
        if len(self._done) >= MANY:
            self._done = {each: end for each, end in self._done.items() if end > now}
        self._done[who] = done
        return 0.0


def network(address: str) -> str:
    """The address, or the network of an IPv6 address: a client may have all of those."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        parsed = parsed.ipv4_mapped or parsed
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed.packed, 64), strict=False))
    return str(parsed)
