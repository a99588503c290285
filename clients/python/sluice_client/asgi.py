"""ASGI middleware: FastAPI, Starlette, Django, and every other framework.

    app.add_middleware(SluiceMiddleware, user=lambda request: ...)

The application finds the verdict in scope["state"]["sluice"], which is
request.state.sluice in Starlette. With a hold, it sets the actual cost in
scope["state"]["sluice_cost"] before the response ends.
"""

import asyncio
from urllib.parse import quote

from .client import AsyncClient
from .middleware import Settings, end_hold_async, keep_hold
from .verdict import merge_headers


class Request:
    """What functions of the settings get: `scope`, `method`, `path` and
    `headers`, whose names are in lower case."""

    def __init__(self, scope):
        self.scope = scope
        self.method = scope.get("method", "GET")
        raw = scope.get("raw_path")
        self.path = raw.decode("latin-1") if raw else quote(scope["path"])
        if scope.get("query_string"):
            self.path += "?" + scope["query_string"].decode("latin-1")
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1")
                        for name, value in scope.get("headers", ())}
        peer = scope.get("client")
        self.address = peer[0] if peer else None


class Response:
    """How far the response to a request is."""

    def __init__(self):
        self.status = None  # until it has begun
        self.headers = []
        self.left = False  # the client has gone away


class SluiceMiddleware:
    """Checks each request before `app` gets it. `settings` are those of
    middleware.Settings; `client` is an AsyncClient, or the default one."""

    def __init__(self, app, client=None, **settings):
        self.app = app
        self.client = client or AsyncClient()
        self.settings = Settings(**settings)

    async def __call__(self, scope, receive, send):
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        settings = self.settings
        if settings.skip and settings.skip(request):
            await self.app(scope, receive, send)
            return
        check = settings.check(request, request.method, request.path,
                               request.address, request.headers)
        verdict = await self.client.check(**check)
        scope = dict(scope, state=dict(scope.get("state") or {},
                                       sluice=verdict))
        if not verdict.allowed:
            await self._deny(request, verdict, receive, send)
            return
        keeper = asyncio.ensure_future(keep_hold(
            self.client, verdict, check["hold"])) if verdict.hold else None
        response = Response()
        try:
            await self._pass(scope, receive, send, verdict, response)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                response.left = True
            await self._end(scope, verdict, response, failed=True)
            raise
        finally:
            if keeper:
                keeper.cancel()
        await self._end(scope, verdict, response)

    async def _pass(self, scope, receive, send, verdict, response):
        async def receive_noted():
            message = await receive()
            if message["type"] == "http.disconnect":
                response.left = True
            return message

        async def send_merged(message):
            if message["type"] == "http.response.start":
                message = dict(message)
                message["headers"] = merge_raw(message.get("headers", ()),
                                               verdict)
                response.status = message["status"]
                response.headers = message["headers"]
            elif message["type"] == "websocket.accept":
                response.status = 101
            await send(message)

        if verdict.wait_ms:
            await asyncio.sleep(verdict.wait_ms / 1000)
        await self.app(scope, receive_noted if verdict.hold else receive,
                       send_merged)

    async def _end(self, scope, verdict, response, failed=False):
        """End the hold of a request, once the response has ended."""
        if verdict.hold is None:
            return
        cost = scope["state"].get("sluice_cost")
        status = response.status or 500
        if response.left and (failed or response.status is None):
            # A client that goes away early pays: it must not choose the cost.
            verb = "settle"
        elif failed:
            verb, cost, status = "release", None, 500
        else:
            verb, cost = self.settings.outcome(status, {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in response.headers}, cost)
        await asyncio.shield(end_hold_async(
            self.client, verdict.hold, verb, cost, status))

    async def _deny(self, request, verdict, receive, send):
        if request.scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008,
                        "reason": (verdict.message or "")[:120]})
            return
        if self.settings.on_denied:
            response = self.settings.on_denied(request, verdict)
            if asyncio.iscoroutine(response):
                response = await response

            async def send_merged(message):
                if message["type"] == "http.response.start":
                    message = dict(message)
                    message["headers"] = merge_raw(
                        message.get("headers", ()), verdict, keep_type=True)
                await send(message)

            await response(request.scope, receive, send_merged)
            return
        body = verdict.body_bytes()
        headers = merge_raw([(b"content-length", b"%d" % len(body))], verdict)
        await send({"type": "http.response.start", "status": verdict.status,
                    "headers": headers})
        await send({"type": "http.response.body",
                    "body": b"" if request.method == "HEAD" else body})


def merge_raw(raw, verdict, keep_type=False):
    """merge_headers() for headers as bytes."""
    present = [(name.decode("latin-1"), value.decode("latin-1"))
               for name, value in raw]
    merged = merge_headers(present, verdict, keep_type)
    return [(name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in merged]
