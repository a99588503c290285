"""WSGI middleware: Flask, Django, and every other framework.

    app.wsgi_app = SluiceMiddleware(app.wsgi_app, user=lambda request: ...)

The application finds the verdict in environ["sluice.verdict"]. With a hold, it
sets the actual cost in environ["sluice.cost"] before the response ends.
"""

import time
from http.client import responses
from urllib.parse import quote

from .client import Client
from .middleware import Keeper, Settings, end_hold
from .verdict import merge_headers


class Request:
    """What functions of the settings get: `environ`, `method`, `path` and
    `headers`, whose names are in lower case."""

    def __init__(self, environ):
        self.environ = environ
        self.method = environ["REQUEST_METHOD"]
        self.path = path_of(environ)
        self.headers = {name[5:].replace("_", "-").lower(): value
                        for name, value in environ.items()
                        if name.startswith("HTTP_")}
        self.address = environ.get("REMOTE_ADDR") or None


def path_of(environ):
    """The path and query, as the client sent them where the server says so."""
    for name in ("RAW_URI", "REQUEST_URI"):
        raw = environ.get(name)
        if raw and raw.startswith("/"):
            return raw
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    path = quote(path.encode("latin-1")) or "/"
    query = environ.get("QUERY_STRING")
    return path + "?" + query if query else path


class SluiceMiddleware:
    """Checks each request before `app` gets it. `settings` are those of
    middleware.Settings; `client` is a Client, or the default one."""

    def __init__(self, app, client=None, **settings):
        self.app = app
        self.client = client or Client()
        self.settings = Settings(**settings)

    def __call__(self, environ, start_response):
        request = Request(environ)
        settings = self.settings
        if settings.skip and settings.skip(request):
            return self.app(environ, start_response)
        check = settings.check(request, request.method, request.path,
                               request.address, request.headers)
        verdict = self.client.check(**check)
        environ["sluice.verdict"] = verdict
        if not verdict.allowed:
            return self._deny(request, verdict, start_response)
        if verdict.wait_ms:
            time.sleep(verdict.wait_ms / 1000)
        started = {"status": 500, "headers": []}

        def start_merged(status, headers, exc_info=None):
            started["status"] = int(status.split(" ", 1)[0])
            started["headers"] = headers
            return start_response(status, merge_headers(headers, verdict),
                                  *([exc_info] if exc_info else []))

        if verdict.hold is None:
            return self.app(environ, start_merged)
        keeper = Keeper(self.client, verdict, check["hold"])
        try:
            body = self.app(environ, start_merged)
        except BaseException:
            end_hold(self.client, verdict.hold, "release", None, 500)
            raise
        return Body(body, keeper.touch, lambda failed: self._end(
            verdict, failed, cost=environ.get("sluice.cost"), **started))

    def _end(self, verdict, failed, cost, status, headers):
        """End the hold of a request, once the response has ended."""
        if failed:
            verb, cost, status = "release", None, 500
        else:
            verb, cost = self.settings.outcome(
                status, {name.lower(): value for name, value in headers}, cost)
        end_hold(self.client, verdict.hold, verb, cost, status)

    def _deny(self, request, verdict, start_response):
        if self.settings.on_denied:
            response = self.settings.on_denied(request, verdict)

            def start_merged(status, headers, exc_info=None):
                return start_response(
                    status, merge_headers(headers, verdict, keep_type=True),
                    *([exc_info] if exc_info else []))

            return response(request.environ, start_merged)
        body = verdict.body_bytes()
        reason = responses.get(verdict.status, "Denied")
        start_response(f"{verdict.status} {reason}", merge_headers(
            [("Content-Length", str(len(body)))], verdict))
        return [] if request.method == "HEAD" else [body]


class Body:
    """A response body that calls `touch` with each part, and `end` once, when
    the server closes it. `end` gets true if reading the body has failed."""

    def __init__(self, body, touch, end):
        self.body = body
        self.parts = iter(body)
        self.touch = touch
        self.end = end
        self.failed = False

    def __iter__(self):
        return self

    def __next__(self):
        self.touch()
        try:
            return next(self.parts)
        except StopIteration:
            raise
        except BaseException:
            self.failed = True
            raise

    def close(self):
        try:
            if hasattr(self.body, "close"):
                self.body.close()
        finally:
            end, self.end = self.end, None
            if end:
                end(self.failed)
