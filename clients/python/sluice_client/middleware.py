"""What the ASGI and the WSGI middleware share: settings and decisions."""

import asyncio
import logging
import time

from .verdict import SluiceError

log = logging.getLogger("sluice_client")

# Headers of the request that are sent with a check. Further headers can be
# named; a header that a client can set must not name the caller.
FORWARDED = ("authorization", "user-agent", "accept-language",
             "idempotency-key")

FACTS = ("user", "org", "plan", "role", "ip", "cost", "hold")


class Settings:
    """The settings of a middleware.

    `user`, `org`, `plan`, `role`, `ip`, `cost` and `hold` are values, or
    functions of the request. `headers` are names of further request headers
    for the policy. `skip` is a function of the request: true means that it is
    not checked. `hold` is a duration such as "30s": the cost is held, and
    settled when the response ends. `settle` is a function of (status,
    headers) and returns the actual cost, None for the held cost, or False to
    release; by default a response with 5xx is released. The application can
    set the cost of a response itself, see asgi.py and wsgi.py. `on_denied` is
    a function of (request, verdict) that returns a response instead of that
    of the policy.
    """

    def __init__(self, *, user=None, org=None, plan=None, role=None, ip=None,
                 cost=None, headers=(), skip=None, hold=None, settle=None,
                 on_denied=None):
        self.facts = dict(zip(FACTS, (user, org, plan, role, ip, cost, hold)))
        self.headers = tuple(name.lower() for name in headers) + FORWARDED
        self.skip = skip
        self.settle = settle
        self.on_denied = on_denied

    def check(self, request, method, path, address, headers):
        """The members of the check of a request. `headers` maps lower-case
        names to values."""
        check = {"method": method, "path": path,
                 "request_id": request_id(headers.get("x-request-id"))}
        for name, value in self.facts.items():
            value = value(request) if callable(value) else value
            if value is not None:
                check[name] = value if name == "cost" else str(value)
        if "ip" not in check and address:
            check["ip"] = address
        sent = {name: headers[name] for name in self.headers
                if name in headers}
        if sent:
            check["headers"] = sent
        return check

    def outcome(self, status, headers, cost=None):
        """How a hold ends: (verb, cost). `cost` is what the application has
        set."""
        if cost is not None:
            return "settle", cost
        if self.settle:
            cost = self.settle(status, headers)
            return ("release", None) if cost is False else ("settle", cost)
        return ("release", None) if status >= 500 else ("settle", None)


def request_id(text):
    """The id of the client if it is a plain word, else None."""
    if text and len(text) <= 128 and text.isascii() and text.isprintable() \
            and " " not in text:
        return text
    return None


def end_hold(client, hold, verb, cost, status):
    """Settle or release. A failure is logged: the hold expires by itself."""
    try:
        if verb == "settle":
            client.settle(hold, cost, status)
        else:
            client.release(hold, status)
    except SluiceError as error:
        log.warning("hold %s was not ended: %s", hold, error)


async def end_hold_async(client, hold, verb, cost, status):
    """As end_hold()."""
    try:
        if verb == "settle":
            await client.settle(hold, cost, status)
        else:
            await client.release(hold, status)
    except SluiceError as error:
        log.warning("hold %s was not ended: %s", hold, error)


def extension_period(verdict):
    """Seconds after which a hold is extended: half of its life. None if the
    verdict does not have it."""
    life = verdict.raw.get("hold_expires_ms")
    if type(life) not in (int, float) or life <= 0:
        return None
    return max(life / 2000, 0.05)


class Keeper:
    """Extends a hold by `lifetime` when touch() is called while a response is
    sent: WSGI has no other turn."""

    def __init__(self, client, verdict, lifetime):
        self.client = client
        self.hold = verdict.hold
        self.lifetime = lifetime
        self.every = extension_period(verdict)
        self.due = time.monotonic() + (self.every or 0)

    def touch(self):
        if self.every is None or time.monotonic() < self.due:
            return
        self.due = time.monotonic() + self.every
        try:
            self.client.extend(self.hold, self.lifetime)
        except SluiceError as error:
            log.warning("hold %s was not extended: %s", self.hold, error)


async def keep_hold(client, verdict, lifetime):
    """Extend a hold until the task is cancelled."""
    every = extension_period(verdict)
    while every is not None:
        await asyncio.sleep(every)
        try:
            await client.extend(verdict.hold, lifetime)
        except SluiceError as error:
            log.warning("hold %s was not extended: %s", verdict.hold, error)
