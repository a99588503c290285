#!/usr/bin/python3
"""real -- the Python client against a real daemon: every call, the unix socket,
forks, restarts, jobs, and what middleware can be told.

usage: real.py FOLDER-OF-THE-CLIENT SLUICED ROOT
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, sys.argv[1])
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from tap import Daemon, Tap  # noqa: E402
from sluice_client import (AsyncClient, Breaker, Client,  # noqa: E402
                           DeniedError, SluiceError)
from sluice_client import asgi, wsgi  # noqa: E402
from sluice_client.verdict import parse_verdict  # noqa: E402
from sluice_client.jobs import limited  # noqa: E402

POLICY = """
sluice: 1
limits:
  minute: { kind: token-bucket, per: user, rate: 3/min }
  minutes: { kind: quota, per: org, rate: 120/month,
             deny: { status: 402, code: PLAN_LIMIT_EXCEEDED } }
  slow: { kind: leaky-bucket, per: user, rate: 10/s queue 5 }
routes:
  - { match: /slow, limits: [slow] }
  - { job: transcribe, limits: [minutes] }
default: [minute]
"""

tap = Tap()


def calls(client):
    verdict = client.check(path="/a", user="ann")
    tap.same("check", (verdict.allowed, verdict.limit, verdict.remaining),
             (True, 3, 2))
    verdicts = client.check_all([{"path": "/a", "user": "ann"}] * 3)
    tap.same("check_all", [one.status for one in verdicts], [200, 200, 429])
    said = client.explain(job="transcribe", org="acme", cost=30)
    tap.check("explain", "transcribe" in said["explain"], said)
    with client.hold("5m", job="transcribe", org="acme", cost=30) as hold:
        tap.same("hold", hold.verdict.remaining, 90)
        hold.extend("1m")
        answer = hold.settle(12)
    tap.same("settle", answer["state"], "settled")
    try:
        with client.hold("5m", job="transcribe", org="acme", cost=30):
            raise KeyError("the job has failed")
    except KeyError:
        pass
    client.report({"org": "acme", "limit": "minutes", "amount": 8,
                   "idempotency_key": "job-7"})
    client.report({"org": "acme", "limit": "minutes", "amount": 8,
                   "idempotency_key": "job-7"})
    meters = client.usage("org", "acme")
    tap.same("usage: 12 are settled, 8 reported once, 30 released",
             used(meters), 20)
    try:
        with client.hold("5m", job="transcribe", org="acme", cost=101):
            tap.check("a denied hold does not run", False)
    except DeniedError as error:
        tap.same("a denied hold raises", error.verdict.status, 402)
    try:
        client.check(path="/a", usr="ann")
        tap.check("an unknown member is refused", False)
    except SluiceError as error:
        tap.same("an unknown member is refused", error.code, "BAD_REQUEST")


def used(meters):
    return next(one["used"] for one in meters["meters"]
                if one["name"] == "minutes")


async def async_calls(url):
    async with AsyncClient(url, timeout=30) as client:
        verdict = await client.check(path="/a", user="bob")
        tap.same("async check", (verdict.allowed, verdict.remaining),
                 (True, 2))
        async with await client.hold("5m", job="transcribe", org="b",
                                     cost=30) as hold:
            await hold.settle(5)
        tap.same("async usage", used(await client.usage("org", "b")), 5)

        @limited(client, "transcribe", org=lambda org: org, cost=50,
                 hold="5m", settle=lambda result: result)
        async def job(_):
            return 7

        await job("c")
        tap.same("async job", used(await client.usage("org", "c")), 7)


def jobs(client):
    @limited(client, "transcribe", org=lambda org, *_: org, cost=50,
             hold="5m", settle=lambda result: result)
    def transcribe(_, minutes):
        if minutes < 0:
            raise ValueError("no sound")
        return minutes

    transcribe("jobs", 40)
    try:
        transcribe("jobs", -1)
    except ValueError:
        pass
    tap.same("a job is settled with its result, one that fails is released",
             used(client.usage("org", "jobs")), 40)
    transcribe("jobs", 40)
    try:
        transcribe("jobs", 40)
        tap.check("a denied job raises", False)
    except DeniedError as error:
        tap.same("a denied job raises", error.verdict.code,
                 "PLAN_LIMIT_EXCEEDED")


def celery_jobs(client):
    try:
        import celery
    except ImportError:
        return
    app = celery.Celery("jobs", broker="memory://")
    app.conf.task_always_eager = True
    denied = []

    @app.task(bind=True)
    @limited(client, "transcribe", org=lambda task, org: org, cost=80,
             hold="5m", retry=lambda verdict, task, org:
             denied.append((task.name, verdict.status)))
    def transcribe(task, org):
        return 1

    transcribe.delay("celery")
    transcribe.delay("celery")
    tap.same("a Celery task that is denied calls `retry`",
             [status for _, status in denied], [402])


def sockets(folder, program):
    daemon = Daemon(program, f"{folder}/p.yaml", path=f"{folder}/s")
    with Client(f"unix:{folder}/s", timeout=30) as client:
        tap.same("unix socket", client.check(path="/", user="u").allowed, True)
        first = len(client.idle)
        client.check(path="/", user="u")
        tap.same("a connection is kept", (first, len(client.idle)), (1, 1))
        child = os.fork()
        if child == 0:
            good = client.check(path="/", user="child").remaining == 2
            os._exit(0 if good else 1)
        tap.same("a fork has its own connections",
                 os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        tap.same("and so has its parent",
                 client.check(path="/", user="u").remaining, 0)
    asyncio.run(async_socket(f"unix:{folder}/s"))
    daemon.stop()


async def async_socket(url):
    async with AsyncClient(url, timeout=30) as client:
        verdict = await client.check(path="/", user="au")
        tap.same("unix socket, asyncio", verdict.failure, None)


def restart(folder, program):
    """No call fails because an idle connection was closed meanwhile."""
    daemon = Daemon(program, f"{folder}/p.yaml")
    client = Client(daemon.url, timeout=30, breaker=False)
    client.check(path="/", user="r")
    port = int(daemon.url.rsplit(":", 1)[1])
    daemon.stop()
    tap.same("stopped", client.check(path="/", user="r").failure,
             "unreachable")
    daemon = Daemon(program, f"{folder}/p.yaml", port=port)
    tap.same("started again", client.check(path="/", user="r").failure, None)
    daemon.stop()


def breaker():
    now = [0.0]
    one = Breaker(failures=2, seconds=1, clock=lambda: now[0])
    one.failed()
    tap.same("one failure does not open the breaker", one.enter(), True)
    one.failed()
    tap.same("two open it", one.enter(), False)
    now[0] = 1.0
    tap.same("then one call is a probe", (one.enter(), one.enter()),
             (True, False))
    one.succeeded()
    tap.same("which closes it", (one.enter(), one.enter()), (True, True))


# ---- middleware ----

def wsgi_get(middleware, path="/a", method="GET", **environ):
    seen = {}

    def start(status, headers, exc_info=None):
        seen.update(status=int(status[:3]), headers=dict(headers))

    parts = middleware({"REQUEST_METHOD": method, "PATH_INFO": path,
                        **environ}, start)
    seen["body"] = b"".join(parts)
    if hasattr(parts, "close"):
        parts.close()
    return seen


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


def wsgi_middleware(client):
    plain = wsgi.SluiceMiddleware(
        app, client, user=lambda request: request.headers.get("x-user"),
        skip=lambda request: request.path == "/health")
    tap.same("skip", [wsgi_get(plain, "/health", HTTP_X_USER="w")["headers"]
                      for _ in range(5)], [{"Content-Type": "text/plain"}] * 5)
    seen = [wsgi_get(plain, HTTP_X_USER="w", HTTP_X_REQUEST_ID="id-7")
            for _ in range(4)]
    tap.same("wsgi", [one["status"] for one in seen], [200, 200, 200, 429])
    tap.same("the id of the client is used",
             seen[3]["headers"]["X-Request-Id"], "id-7")
    tap.same("HEAD has no body",
             wsgi_get(plain, method="HEAD", HTTP_X_USER="w")["body"], b"")

    def denied(request, verdict):
        def response(environ, start_response):
            start_response("429 Slow down", [("Content-Type", "text/plain")])
            return [f"wait for {verdict.by}".encode()]

        return response

    own = wsgi.SluiceMiddleware(app, client, user="w", on_denied=denied)
    seen = wsgi_get(own)
    tap.same("a handler renders the denial",
             (seen["body"], seen["headers"]["Content-Type"]),
             (b"wait for minute", "text/plain"))
    tap.check("with the headers of the verdict",
              "Retry-After" in seen["headers"], seen)
    paced = wsgi.SluiceMiddleware(app, client, user="p")
    seen = [wsgi_get(paced, "/slow") for _ in range(3)]
    tap.same("a paced request waits and passes",
             [one["status"] for one in seen], [200, 200, 200])


async def asgi_get(middleware, scope):
    sent = []

    async def send(message):
        sent.append(message)

    await middleware(scope, None, send)
    return sent


def asgi_middleware(url):
    async def run():
        passed = []

        async def socket_app(scope, receive, send):
            passed.append(scope["type"])
            if scope["type"] == "websocket":
                await send({"type": "websocket.accept"})

        client = AsyncClient(url, timeout=30)
        one = asgi.SluiceMiddleware(socket_app, client, user="ws")
        scope = {"type": "websocket", "path": "/a", "headers": []}
        for _ in range(3):
            await asgi_get(one, scope)
        sent = await asgi_get(one, scope)
        tap.same("a denied websocket is closed", sent[0]["type"],
                 "websocket.close")
        await asgi_get(one, {"type": "lifespan"})
        tap.same("lifespan passes", passed, ["websocket"] * 3 + ["lifespan"])
        await client.close()

    asyncio.run(run())


class ShortHold:
    """A client whose holds expire after 100 ms. `calls` has what it is asked
    later."""

    def __init__(self):
        self.calls = []

    def check(self, **_):
        return parse_verdict({"allowed": True, "status": 200, "hold": "h1",
                              "hold_expires_ms": 100, "limits": [],
                              "headers": {}})

    def extend(self, hold, lifetime):
        self.calls.append(("extend", hold, lifetime))

    def settle(self, hold, cost, _):
        self.calls.append(("settle", hold) if cost is None
                          else ("settle", hold, cost))

    def release(self, hold, _):
        self.calls.append(("release", hold))

    def is_extended(self):
        return len(self.calls) > 1


class AsyncShortHold(ShortHold):
    async def check(self, **check):
        return super().check(**check)

    async def extend(self, hold, lifetime):
        super().extend(hold, lifetime)

    async def settle(self, *how):
        super().settle(*how)

    async def release(self, *how):
        super().release(*how)


def long_responses():
    """Holds are extended while the response is sent, and not longer."""
    def body(client):
        while not client.is_extended():
            time.sleep(0.01)
            yield b"a"

    def app(environ, start_response):
        start_response("200 OK", [])
        return body(client)

    client = ShortHold()
    sent = wsgi.SluiceMiddleware(app, client, hold="100ms")(
        {"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, lambda *_: None)
    for _ in sent:
        pass
    sent.close()
    tap.same("wsgi: a long response extends its hold",
             (client.calls[0], client.calls[-1]),
             (("extend", "h1", "100ms"), ("settle", "h1")))

    async def run():
        client = AsyncShortHold()

        async def app(scope, receive, send):
            while not client.is_extended():
                await asyncio.sleep(0.01)
            await send({"type": "http.response.start", "status": 200})

        async def ignore(*_):
            return None

        await asgi.SluiceMiddleware(app, client, hold="100ms")(
            {"type": "http", "path": "/"}, ignore, ignore)
        await asyncio.sleep(0)  # lets a cancelled task end
        tap.same("asgi: a long response extends its hold",
                 (client.calls[0], client.calls[-1]),
                 (("extend", "h1", "100ms"), ("settle", "h1")))
        tap.same("asgi: nothing extends it later", len(asyncio.all_tasks()), 1)

    asyncio.run(run())


def leaving():
    """A client that goes away early pays what was held."""
    async def cancelled(receive, send):
        raise asyncio.CancelledError

    async def as_django(receive, send):
        await receive()

    async def after_the_start(receive, send):
        await send({"type": "http.response.start", "status": 200})
        await receive()
        raise OSError

    async def fails(receive, send):
        raise OSError

    async def ended(app, cost=None):
        client = AsyncShortHold()

        async def disconnect():
            return {"type": "http.disconnect"}

        async def ignore(_):
            return None

        async def whole(scope, receive, send):
            if cost is not None:
                scope["state"]["sluice_cost"] = cost
            await app(receive, send)

        try:
            await asgi.SluiceMiddleware(whole, client, hold="30s")(
                {"type": "http", "path": "/"}, disconnect, ignore)
        except (OSError, asyncio.CancelledError):
            pass
        return client.calls

    for name, app, cost, last in (
            ("cancelled", cancelled, None, ("settle", "h1")),
            ("cancelled, with a cost", cancelled, 7, ("settle", "h1", 7)),
            ("no response", as_django, None, ("settle", "h1")),
            ("half a response", after_the_start, None, ("settle", "h1")),
            ("a failure of the application", fails, 7, ("release", "h1"))):
        tap.same("asgi: the client leaves: " + name,
                 asyncio.run(ended(app, cost)), [last])


# ---- the page ----

def guide(root, daemon, folder):
    """The first lines of the page work as printed."""
    with open(f"{root}/docs/guide/clients/python.md",
              encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    tap.check("the first example of the page has at most ten lines",
              blocks[0].count("\n") <= 10, blocks[0])
    try:
        import fastapi  # noqa: F401
    except ImportError:
        return
    with open(f"{folder}/app.py", "w", encoding="utf-8") as file:
        file.write(blocks[0])
    for number, block in enumerate(blocks[1:]):
        env = dict(os.environ, PYTHONPATH=sys.argv[1], SLUICE_URL=daemon.url,
                   SLUICE_DEADLINE_MS="30000")
        ran = subprocess.run([sys.executable, "-c", block], env=env,
                             cwd=folder, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        wanted = "".join(line[2:] + "\n" for line in block.splitlines()
                         if line.startswith("# "))
        tap.same(f"example {number + 2} of the page",
                 (ran.returncode, ran.stdout), (0, wanted))
    import importlib
    sys.path.insert(0, folder)
    os.environ.update(SLUICE_URL=daemon.url, SLUICE_DEADLINE_MS="30000")
    page = importlib.import_module("app").app

    async def run():
        status = []
        for _ in range(4):
            sent = await asgi_get(page, {
                "type": "http", "method": "GET", "path": "/api/hello",
                "headers": [(b"x-user", b"page")], "query_string": b"",
                "http_version": "1.1", "scheme": "http", "root_path": ""})
            status.append(sent[0]["status"])
        return status

    tap.same("the first example of the page", asyncio.run(run()),
             [200, 200, 200, 429])


def main():
    program, root = os.path.abspath(sys.argv[2]), sys.argv[3]
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        with open(f"{folder}/p.yaml", "w", encoding="ascii") as file:
            file.write(POLICY)
        daemon = Daemon(program, f"{folder}/p.yaml",
                        "--usage", f"sqlite:{folder}/usage.db")
        client = Client(daemon.url, timeout=30)
        calls(client)
        asyncio.run(async_calls(daemon.url))
        jobs(client)
        celery_jobs(client)
        sockets(folder, program)
        restart(folder, program)
        breaker()
        wsgi_middleware(client)
        asgi_middleware(daemon.url)
        long_responses()
        leaving()
        guide(root, Daemon(program, f"{root}/examples/web.yaml",
                           "--usage", f"sqlite:{folder}/page.db"), folder)
    tap.done()


main()
