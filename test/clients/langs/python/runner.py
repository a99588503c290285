#!/usr/bin/python3
"""runner -- the Python client for conformance.py.

usage: runner.py FOLDER-OF-THE-CLIENT sync|async
"""

import asyncio
import gc
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, sys.argv[1])

from sluice_client import (AsyncClient, Client, SluiceError,  # noqa: E402
                           WebhookError, merge_headers, verify_webhook)
from sluice_client import asgi, wsgi  # noqa: E402

NAMES = ("allowed", "status", "code", "by", "limit", "remaining", "reset_ms",
         "wait_ms", "hold", "degraded", "failure")


class Blocking:
    """An AsyncClient with blocking calls, on a loop of its own."""

    def __init__(self, *args, **settings):
        self.loop = asyncio.new_event_loop()
        self.client = AsyncClient(*args, **settings)
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def __getattr__(self, name):
        def call(*args, **members):
            return asyncio.run_coroutine_threadsafe(
                getattr(self.client, name)(*args, **members), self.loop
            ).result()

        return call

    def stop(self):
        self.close()
        self.loop.call_soon_threadsafe(self.loop.stop)


def make_client(order, kind):
    given = order["client"]
    settings = {"timeout": given.get("deadline_ms", 250) / 1000,
                "on_failure": given.get("on_failure", "allow"),
                "token": given.get("token")}
    if "local" in given:
        local = given["local"]
        settings["local"] = f"{local['limit']}/{local['window_ms'] // 1000}s"
    return (Client if kind == "sync" else Blocking)(order["url"], **settings)


def shown(verdict):
    result = {name: getattr(verdict, name) for name in NAMES}
    result["retry_ms"] = verdict.retry_after_ms
    return result


def one_call(client, request):
    """The answer to print, and the verdict of a check."""
    call = request["call"]
    if call == "check":
        verdict = client.check(**request["check"])
        return {"result": shown(verdict)}, verdict
    if call == "hold":
        verdict = client.hold(request["for"], **request["check"]).verdict
        return {"result": shown(verdict)}, None
    if call == "check_all":
        return {"all": [shown(one) for one
                        in client.check_all(request["checks"])]}, None
    if call == "settle":
        return {"answer": client.settle(request["hold"],
                                        request.get("cost"))}, None
    if call == "release":
        return {"answer": client.release(request["hold"])}, None
    if call == "extend":
        return {"answer": client.extend(request["hold"],
                                        request["for"])}, None
    if call == "report":
        return {"answer": client.report(request["usage"])}, None
    if call == "usage":
        return {"answer": client.usage(request["scope"],
                                       request["id"])}, None
    if call == "explain":
        return {"answer": client.explain(**request["check"])}, None
    raise ValueError(call)


# ---- what middleware sends to the user ----

class Told:
    """A client that has a verdict already."""

    def __init__(self, verdict):
        self.verdict = verdict

    def check(self, **_):
        return self.verdict


class AsyncTold(Told):
    async def check(self, **_):
        return self.verdict


def wsgi_user(verdict, present):
    user = {}

    def app(environ, start_response):
        start_response("200 OK", list(present.items()))
        return [b"hello"]

    def start_response(status, headers):
        user.update(status=int(status[:3]), headers=dict(headers))

    body = wsgi.SluiceMiddleware(app, Told(verdict))(
        {"REQUEST_METHOD": "GET", "PATH_INFO": "/a"}, start_response)
    return with_body(user, b"".join(body), verdict, present)


def asgi_user(verdict, present):
    user, parts = {}, []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200,
                    "headers": [(name.encode(), value.encode())
                                for name, value in present.items()]})
        await send({"type": "http.response.body", "body": b"hello"})

    async def send(message):
        if message["type"] == "http.response.start":
            user.update(status=message["status"], headers={
                name.decode(): value.decode()
                for name, value in message["headers"]})
        else:
            parts.append(message["body"])

    asyncio.run(asgi.SluiceMiddleware(app, AsyncTold(verdict))(
        {"type": "http", "method": "GET", "path": "/a", "headers": []},
        None, send))
    return with_body(user, b"".join(parts), verdict, present)


def with_body(user, body, verdict, present):
    """A denied request does not reach the application: what it would have set
    is merged here, as by middleware around ours."""
    if verdict.allowed:
        assert user.pop("status") == 200 and body == b"hello"
        return user
    user["headers"] = dict(merge_headers(list(present.items()), verdict))
    user["body"] = json.loads(body)
    return user


# ---- many calls at once ----

def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def many(client, request, kind):
    before = descriptors()
    check, total = request["check"], request["count"]
    if kind == "sync":
        with ThreadPoolExecutor(request["at_once"]) as pool:
            verdicts = list(pool.map(lambda _: client.check(**check),
                                     range(total)))
    else:
        async def all_of_them():
            return await asyncio.gather(
                *(client.client.check(**check) for _ in range(total)))

        verdicts = asyncio.run_coroutine_threadsafe(
            all_of_them(), client.loop).result()
    counts = {}
    for verdict in verdicts:
        name = verdict.failure or "verdicts"
        counts[name] = counts.get(name, 0) + 1
    client.close()
    counts.update(before=before, after=descriptors())
    return {"answer": counts}


def webhook(request):
    try:
        verify_webhook(request["body"].encode(), request["headers"],
                       request["secret"], scheme=request["scheme"],
                       now=request["now"])
    except WebhookError:
        return {"answer": {"valid": False}}
    return {"answer": {"valid": True}}


def run(order, kind):
    request = order["request"]
    if request["call"] == "webhook":
        return webhook(request)
    client = make_client(order, kind)
    try:
        if request["call"] == "many":
            return many(client, request, kind)
        for _ in range(order["times"]):
            try:
                printed, verdict = one_call(client, request)
            except SluiceError as error:
                printed, verdict = {"error": {
                    "status": error.status, "code": error.code,
                    "detail": error.detail, "failure": error.failure}}, None
        if verdict:
            user = wsgi_user if kind == "sync" else asgi_user
            printed["user"] = user(verdict, order["response"])
        return printed
    finally:
        client.close() if kind == "sync" else client.stop()


def main():
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line), sys.argv[2])), flush=True)


main()
