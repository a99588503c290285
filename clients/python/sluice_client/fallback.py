"""What a client does while the daemon does not answer."""

import re
import threading
import time
from collections import OrderedDict

PERIODS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60,
           "h": 3600, "hour": 3600, "d": 86400, "day": 86400}


class Breaker:
    """A circuit breaker.

    After `failures` failures in a row it is open for `seconds`: calls fail at
    once. Then one call passes as a probe; its result closes or opens it.
    """

    def __init__(self, failures=5, seconds=1.0, clock=time.monotonic):
        self.failures = failures
        self.seconds = seconds
        self.clock = clock
        self.lock = threading.Lock()
        self.count = 0
        self.until = 0.0

    def enter(self):
        """May this call be sent? A call that may must report its result."""
        if self.count < self.failures:
            return True
        with self.lock:
            now = self.clock()
            if now < self.until:
                return False
            self.until = now + self.seconds
            return True

    def succeeded(self):
        self.count = 0

    def failed(self):
        with self.lock:
            self.count += 1
            if self.count >= self.failures:
                self.until = self.clock() + self.seconds

    @property
    def is_open(self):
        return self.count >= self.failures and self.clock() < self.until


class LocalRate:
    """The allowance of this process, for on_failure="local".

    `rate` is "100/min" or "5/10s": so many units for each caller in a window
    that begins with the first unit. At most `most` callers are remembered;
    the oldest window gives way.
    """

    def __init__(self, rate, most=10000, clock=time.monotonic):
        found = re.fullmatch(r"\s*(\d+)\s*/\s*(\d*)\s*([a-z]+)\s*", str(rate))
        if not found or found[3] not in PERIODS or int(found[1]) < 1 or \
                found[2] == "0":
            raise ValueError(
                f'the local rate "{rate}" is invalid; write "100/min"')
        self.limit = int(found[1])
        self.window = int(found[2] or 1) * PERIODS[found[3]]
        self.most = most
        self.clock = clock
        self.lock = threading.Lock()
        self.windows = OrderedDict()  # caller -> [end, used], by end

    def take(self, caller, cost=1):
        """Returns (allowed, limit, remaining, reset_ms, retry_ms)."""
        with self.lock:
            now = self.clock()
            end, used = self.windows.get(caller, (now, 0))
            if end <= now:
                self.windows.pop(caller, None)
                end, used = now + self.window, 0
            reset_ms = max(1, int((end - now) * 1000))
            if used + cost > self.limit:
                retry_ms = reset_ms if cost <= self.limit else None
                return False, self.limit, self.limit - used, reset_ms, retry_ms
            self.windows[caller] = (end, used + cost)
            while len(self.windows) > self.most:
                self.windows.popitem(last=False)
            return True, self.limit, self.limit - used - cost, reset_ms, None


def caller_of(check):
    """Whose allowance a check takes: user, else org, key, ip, else one for
    all."""
    for name in ("user", "org", "key", "ip"):
        if check.get(name):
            return name, str(check[name])
    return ()


def total_cost(check):
    """The cost of a check as one number; the largest of several."""
    cost = check.get("cost")
    if isinstance(cost, dict):
        cost = max(cost.values(), default=1)
    return 1 if cost is None else cost
