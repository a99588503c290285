"""The clients: Client for threads, AsyncClient for asyncio.

Both have the same calls and the same rules:

  1. A call ends within `timeout` seconds, with connecting.
  2. check(), check_all() and hold() never raise because the daemon is away:
     `on_failure` decides. A failed deny is 503, never 429.
  3. A request is sent at most once. A connection that the daemon has closed
     is not used again.
  4. The daemon refuses what is invalid: RefusedError, whatever `on_failure`.
"""

import asyncio
import os
import select
import socket
import ssl
import threading
import time
from urllib.parse import quote, urlsplit

from . import http1
from .fallback import Breaker, LocalRate, caller_of, total_cost
from .verdict import (DeniedError, SluiceError, failure_verdict, local_verdict,
                      parse_verdict)

MAX_IDLE = 128  # connections that are kept
MAX_IDLE_SECONDS = 50  # the daemon closes them after 75
MAX_OPEN = 128  # connections of an AsyncClient; further calls wait

class Address:
    """Where the daemon listens: http://, https:// or unix:PATH."""

    def __init__(self, url, ssl_context=None):
        self.tls = None
        self.path = None
        if url.startswith("unix:"):
            self.path = url[5:]
            if self.path.startswith("//"):
                self.path = self.path[2:]
            self.host = "localhost"
            if not self.path:
                raise ValueError("write unix:/run/sluice/http.sock")
            return
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f'the address "{url}" is invalid; write '
                             "http://HOST:PORT or unix:PATH")
        if parts.scheme == "https":
            self.tls = ssl_context or ssl.create_default_context()
        self.name = parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self.host = parts.netloc.rpartition("@")[2]

    def connect(self, seconds):
        """A connected socket. Raises OSError."""
        if self.path is not None:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(seconds)
                sock.connect(self.path)
            except OSError:
                sock.close()
                raise
            return sock
        sock = socket.create_connection((self.name, self.port), seconds)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_hostname=self.name)
        except OSError:
            sock.close()
            raise
        return sock


class BaseClient:
    """What both clients share: settings, bodies, and what a failure means."""

    def __init__(self, url=None, *, token=None, timeout=None,
                 on_failure="allow", local=None, breaker=None,
                 ssl_context=None, on_error=None):
        """`url`: the http listener, default $SLUICE_URL or
        http://127.0.0.1:8080. `timeout`: seconds of a call, default
        $SLUICE_DEADLINE_MS or 250 ms. `on_failure`:
        "allow", "deny" (503) or "local", which limits each caller in this
        process to the rate `local`, such as "100/min". `breaker`: a Breaker,
        or False for none. `on_error` is called with each failure of a check.
        """
        if on_failure not in ("allow", "deny", "local"):
            raise ValueError('on_failure is "allow", "deny" or "local", not '
                             f'"{on_failure}"')
        if on_failure == "local" and local is None:
            raise ValueError('on_failure="local" needs local="100/min"')
        if timeout is None:
            timeout = int(os.environ.get("SLUICE_DEADLINE_MS") or 250) / 1000
        if timeout <= 0:
            raise ValueError("timeout is a number of seconds above 0")
        url = url or os.environ.get("SLUICE_URL") or "http://127.0.0.1:8080"
        self.address = Address(url, ssl_context)
        self.token = token or os.environ.get("SLUICE_TOKEN")
        self.timeout = timeout
        self.on_failure = on_failure
        self.local = LocalRate(local) if local is not None else None
        self.breaker = Breaker() if breaker is None else breaker
        self.on_error = on_error

    def _request(self, method, path, body):
        return http1.request(method, path, self.address.host, self.token, body)

    def _enter(self):
        if self.breaker and not self.breaker.enter():
            raise SluiceError("the daemon has failed repeatedly; the circuit "
                              "breaker is open", "open")

    def _report(self, error):
        """Tell the breaker how a call ended."""
        if not self.breaker or error and error.failure == "open":
            return
        if error is None or error.failure is None:
            self.breaker.succeeded()
        else:
            self.breaker.failed()

    def _failed(self, check, error):
        """The verdict of a check that the daemon did not decide. A refusal
        is raised: to let it pass would be a way round the limits."""
        if error.failure is None:
            raise error
        if self.on_error:
            self.on_error(error)
        request_id = check.get("request_id")
        if self.on_failure == "local":
            taken = self.local.take(caller_of(check), total_cost(check))
            return local_verdict(taken, error.failure, request_id)
        return failure_verdict(self.on_failure == "allow", error.failure,
                               request_id)


def check_body(members):
    """The JSON body of a check, without members that are None."""
    return {name: value for name, value in members.items()
            if value is not None}


def parse_verdicts(value, count):
    if not isinstance(value, list) or len(value) != count:
        raise SluiceError(f"the answer is not an array of {count} verdicts")
    return [parse_verdict(one) for one in value]


def hold_path(hold, verb):
    return f"/v1/holds/{quote(hold, safe='')}/{verb}"


def end_body(cost, status):
    return {name: value for name, value in (("cost", cost), ("status", status))
            if value is not None}


def usage_path(scope, id_):
    return f"/v1/usage/{quote(scope, safe=':')}/{quote(id_, safe=':')}"


def failed(error):
    """The SluiceError of an error of a socket."""
    if isinstance(error, (socket.timeout, asyncio.TimeoutError)):
        return SluiceError("the daemon did not answer in time", "timeout")
    return SluiceError(f"the daemon cannot be reached: {error}",
                       "unreachable")


class Hold:
    """Units that are held, as a context manager.

    `verdict` is that of the check. If it is denied, `with` raises
    DeniedError. settle(cost) or release() ends the hold. At the end of the
    block, a hold that is still open is settled with the held cost, and
    released after an exception. Without a daemon an allowed request has no
    hold, and ending it does nothing.
    """

    def __init__(self, client, verdict):
        self.client = client
        self.verdict = verdict
        self.id = verdict.hold
        self.is_open = self.id is not None

    def settle(self, cost=None, status=None):
        if self.is_open:
            self.is_open = False
            return self.client.settle(self.id, cost, status)
        return None

    def release(self, status=None):
        if self.is_open:
            self.is_open = False
            return self.client.release(self.id, status)
        return None

    def extend(self, hold):
        return self.client.extend(self.id, hold) if self.is_open else None

    def __enter__(self):
        if not self.verdict.allowed:
            raise DeniedError(self.verdict)
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.settle()
            return
        try:
            self.release()
        except SluiceError:
            pass  # the hold expires; the first error is the one to see


class Client(BaseClient):
    """A client for threads. Safe to share, also across a fork."""

    def __init__(self, url=None, **settings):
        super().__init__(url, **settings)
        self.lock = threading.Lock()
        self.idle = []  # (socket, when it became idle)
        self.pid = os.getpid()

    def close(self):
        """Close the idle connections. The client can still be used."""
        with self.lock:
            idle, self.idle = self.idle, []
        for sock, _ in idle:
            sock.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    # ---- checks ----

    def check(self, **members):
        """Check one request: method and path, or job, or limit and key; with
        user, org, plan, role, ip, headers, cost, hold, wait, request_id,
        idempotency_key. Returns a Verdict."""
        body = check_body(members)
        try:
            return self._call("POST", "/v1/check", body, parse_verdict)
        except SluiceError as error:
            return self._failed(body, error)

    def check_all(self, checks):
        """Check up to 1,000 requests at once; each is a dict as for check().
        Returns their Verdicts in the same order."""
        bodies = [check_body(one) for one in checks]
        if not bodies:
            return []
        try:
            return self._call("POST", "/v1/check", bodies,
                              lambda value: parse_verdicts(value, len(bodies)))
        except SluiceError as error:
            return [self._failed(one, error) for one in bodies]

    def explain(self, **members):
        """What check() would answer, with the reasons, as a dict. Takes
        nothing. Raises SluiceError."""
        return self._call("POST", "/v1/explain", check_body(members))

    # ---- holds ----

    def hold(self, duration="30s", **members):
        """Check, and hold the units for this time. Returns a Hold."""
        return self.hold_of(self.check(hold=duration, **members))

    def hold_of(self, verdict):
        """The Hold of a verdict."""
        return Hold(self, verdict)

    def settle(self, hold, cost=None, status=None):
        """End a hold with the actual cost; None is the held cost."""
        return self._call("POST", hold_path(hold, "settle"),
                          end_body(cost, status))

    def release(self, hold, status=None):
        """End a hold; all its units are refunded."""
        return self._call("POST", hold_path(hold, "release"),
                          end_body(None, status))

    def extend(self, hold, duration):
        """Set the lifetime of a hold, from now."""
        return self._call("POST", hold_path(hold, "extend"),
                          {"hold": duration})

    # ---- usage ----

    def usage(self, scope, id_):
        """The meters of a subject: usage("org", "acme")."""
        return self._call("GET", usage_path(scope, id_), None)

    def report(self, usage):
        """Report what was used: a dict, or a list of up to 1,000."""
        return self._call("POST", "/v1/usage", usage)

    # ---- connections ----

    def _call(self, method, path, body, parse=None):
        self._enter()
        try:
            value = self._exchange(self._request(method, path, body)).json()
            value = parse(value) if parse else value
        except OSError as error:
            failure = failed(error)
            self._report(failure)
            raise failure from error
        except SluiceError as error:
            self._report(error)
            raise
        self._report(None)
        return value

    def _exchange(self, request):
        deadline = time.monotonic() + self.timeout
        sock = self._take_idle() or self.address.connect(self.timeout)
        keep = False
        try:
            sock.settimeout(left(deadline))
            sock.sendall(request)
            response = http1.Response()
            while not response.done:
                sock.settimeout(left(deadline))
                response.feed(sock.recv(65536))
            keep = response.keep_alive
            return response
        finally:
            if keep:
                self._put_idle(sock)
            else:
                sock.close()

    def _take_idle(self):
        if self.pid != os.getpid():  # after a fork: not our connections
            self.pid, self.lock, self.idle = os.getpid(), threading.Lock(), []
        oldest = time.monotonic() - MAX_IDLE_SECONDS
        while True:
            with self.lock:
                if not self.idle:
                    return None
                sock, since = self.idle.pop()
            if since > oldest and not is_readable(sock):
                return sock
            sock.close()

    def _put_idle(self, sock):
        with self.lock:
            if len(self.idle) < MAX_IDLE:
                self.idle.append((sock, time.monotonic()))
                return
        sock.close()


def left(deadline):
    """Seconds until the deadline. Raises socket.timeout if it has passed."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise socket.timeout("timed out")
    return seconds


def is_readable(sock):
    """Is there something to read on an idle connection? Then it is closed,
    or not in step."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


class AsyncHold:
    """As Hold, for `async with`."""

    def __init__(self, client, verdict):
        self.client = client
        self.verdict = verdict
        self.id = verdict.hold
        self.is_open = self.id is not None

    async def settle(self, cost=None, status=None):
        if self.is_open:
            self.is_open = False
            return await self.client.settle(self.id, cost, status)
        return None

    async def release(self, status=None):
        if self.is_open:
            self.is_open = False
            return await self.client.release(self.id, status)
        return None

    async def extend(self, hold):
        return await self.client.extend(self.id, hold) if self.is_open else None

    async def __aenter__(self):
        if not self.verdict.allowed:
            raise DeniedError(self.verdict)
        return self

    async def __aexit__(self, kind, error, trace):
        if kind is None:
            await self.settle()
            return
        try:
            await self.release()
        except SluiceError:
            pass


class AsyncClient(BaseClient):
    """A client for asyncio. Its calls are those of Client, to be awaited."""

    def __init__(self, url=None, **settings):
        super().__init__(url, **settings)
        self._forget()

    def _forget(self):
        self.loop = None
        self.places = None
        self.idle = []  # (reader, writer, when it became idle)

    async def close(self):
        """Close the idle connections. The client can still be used."""
        idle, self.idle = self.idle, []
        for _, writer, _ in idle:
            writer.close()
        for _, writer, _ in idle:
            try:
                await writer.wait_closed()
            except OSError:
                pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, error, trace):
        await self.close()

    async def check(self, **members):
        """As Client.check()."""
        body = check_body(members)
        try:
            return await self._call("POST", "/v1/check", body, parse_verdict)
        except SluiceError as error:
            return self._failed(body, error)

    async def check_all(self, checks):
        """As Client.check_all()."""
        bodies = [check_body(one) for one in checks]
        if not bodies:
            return []
        try:
            return await self._call(
                "POST", "/v1/check", bodies,
                lambda value: parse_verdicts(value, len(bodies)))
        except SluiceError as error:
            return [self._failed(one, error) for one in bodies]

    async def explain(self, **members):
        """As Client.explain()."""
        return await self._call("POST", "/v1/explain", check_body(members))

    async def hold(self, duration="30s", **members):
        """As Client.hold()."""
        return self.hold_of(await self.check(hold=duration, **members))

    def hold_of(self, verdict):
        """As Client.hold_of()."""
        return AsyncHold(self, verdict)

    async def settle(self, hold, cost=None, status=None):
        """As Client.settle()."""
        return await self._call("POST", hold_path(hold, "settle"),
                                end_body(cost, status))

    async def release(self, hold, status=None):
        """As Client.release()."""
        return await self._call("POST", hold_path(hold, "release"),
                                end_body(None, status))

    async def extend(self, hold, duration):
        """As Client.extend()."""
        return await self._call("POST", hold_path(hold, "extend"),
                                {"hold": duration})

    async def usage(self, scope, id_):
        """As Client.usage()."""
        return await self._call("GET", usage_path(scope, id_), None)

    async def report(self, usage):
        """As Client.report()."""
        return await self._call("POST", "/v1/usage", usage)

    # ---- connections ----

    async def _call(self, method, path, body, parse=None):
        try:
            response = await asyncio.wait_for(
                self._exchange(self._request(method, path, body)),
                self.timeout)
            value = response.json()
            value = parse(value) if parse else value
        except (OSError, asyncio.TimeoutError) as error:
            failure = failed(error)
            self._report(failure)
            raise failure from error
        except SluiceError as error:
            self._report(error)
            raise
        self._report(None)
        return value

    async def _exchange(self, request):
        loop = asyncio.get_running_loop()
        if self.loop is not loop:  # connections belong to their loop
            self._forget()
            self.loop, self.places = loop, asyncio.Semaphore(MAX_OPEN)
        async with self.places:
            self._enter()
            reader, writer = self._take_idle() or await self._connect()
            keep = False
            try:
                writer.write(request)
                await writer.drain()
                response = http1.Response()
                while not response.done:
                    response.feed(await reader.read(65536))
                keep = response.keep_alive
                return response
            finally:
                if keep and len(self.idle) < MAX_IDLE:
                    self.idle.append((reader, writer, time.monotonic()))
                else:
                    writer.close()

    async def _connect(self):
        address = self.address
        if address.path is not None:
            return await asyncio.open_unix_connection(address.path)
        return await asyncio.open_connection(
            address.name, address.port, ssl=address.tls)

    def _take_idle(self):
        oldest = time.monotonic() - MAX_IDLE_SECONDS
        while self.idle:
            reader, writer, since = self.idle.pop()
            if since > oldest and not reader.at_eof() and \
                    not writer.is_closing():
                return reader, writer
            writer.close()
        return None
