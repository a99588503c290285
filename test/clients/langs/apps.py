#!/usr/bin/python3
"""apps -- an example application against a real daemon.

usage: apps.py SLUICED POLICY NAME READY COMMAND...

COMMAND starts the application; PORT in it becomes a free port. It serves when
it has printed a line with the text READY, or when READY is "port", when it
accepts connections. All applications have the same paths:

  GET /api/hello              3 per minute for each X-User
  POST /api/chat?tokens=N     holds 100 tokens and uses N; 0 fails; that of
                              "spring" does not end if N is below 0
"""

import json
import os
import re
import socket
import sys

from ports import accepts, free_port
from tap import Daemon, Process, Tap, fetch, until

ALL = 1000  # tokens of a user


class App:
    def __init__(self, command, ready, daemon):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        # On a busy machine an answer may take longer than 250 ms.
        env = {"SLUICE_URL": daemon.url, "SLUICE_DEADLINE_MS": "30000",
               "PORT": str(self.port)}
        if ready == "port":
            command = ["sh", "-c", 'echo starts; exec "$@"', "sh", *command]
        self.process = Process(
            [word.replace("PORT", str(self.port)) for word in command],
            lambda line: ready in line or ready == "port", env=env)
        if not until(lambda: accepts(self.port)):
            raise SystemExit("Bail out! the application does not serve")

    def get(self, user, path="/api/hello", **more):
        return fetch(self.url + path, headers={"X-User": user}, **more)


def left(daemon, user):
    """The tokens that a user has left."""
    verdict = json.loads(fetch(daemon.url + "/v1/check", {
        "method": "POST", "path": "/api/chat", "user": user,
        "cost": 0})[2])
    return verdict["limits"][0]["remaining"]


def ended(daemon):
    """How many holds were settled or released."""
    metrics = fetch(daemon.admin + "/metrics")[2]
    return sum(int(line.rsplit(" ", 1)[1]) for line in metrics.split("\n")
               if re.match(r'sluice_holds_total.*"(settled|released)"', line))


def test_hello(tap, app):
    answers = [app.get("ann") for _ in range(4)]
    tap.same("three pass, the fourth is denied",
             [status for status, _, _ in answers], [200, 200, 200, 429])
    tap.same("the application answers", json.loads(answers[0][2]),
             {"hello": "ann"})
    tap.same("headers count", [headers.get("x-ratelimit-remaining")
                               for _, headers, _ in answers],
             ["2", "1", "0", "0"])
    _, headers, text = answers[3]
    tap.same("a denial has a type", headers.get("content-type"),
             "application/problem+json")
    tap.check("and a retry time", 1 <= int(headers["retry-after"]) <= 20,
              headers)
    tap.check("and the body of the policy",
              json.loads(text).get("violated-policies") == ["hello"], text)
    tap.same("another user has an allowance of their own",
             app.get("bob")[0], 200)
    tap.same("what no limit names passes without headers",
             app.get("ann", "/other")[1].get("x-ratelimit-limit"), None)


def test_holds(tap, app, daemon):
    status, headers, text = app.get("cat", "/api/chat?tokens=42",
                                    method="POST")
    tap.same("a stream passes", (status, text), (200, "a long answer, 42 tokens"))
    tap.same("the id of the application stays", headers.get("x-request-id"),
             "mine")
    exposed = headers.get("access-control-expose-headers", "").split(", ")
    tap.check("lists are merged",
              exposed[0] == "ETag" and "X-RateLimit-Remaining" in exposed,
              exposed)
    tap.same("the verdict counts what is held",
             headers.get("x-ratelimit-remaining"), str(ALL - 100))
    tap.check("the hold is settled when the response has ended",
              until(lambda: left(daemon, "cat") == ALL - 42),
              left(daemon, "cat"))
    status, _, _ = app.get("dan", "/api/chat?tokens=0", method="POST")
    tap.same("an application that fails answers 500", status, 500)
    tap.check("and the hold is released",
              until(lambda: left(daemon, "dan") == ALL), left(daemon, "dan"))


def test_leaving(tap, app, daemon):
    before = ended(daemon)
    with socket.create_connection(("127.0.0.1", app.port)) as client:
        client.sendall(b"POST /api/chat?tokens=-1 HTTP/1.1\r\nHost: a\r\n"
                       b"X-User: fay\r\nContent-Length: 0\r\n\r\n")
        tap.check("a stream begins", client.recv(12) == b"HTTP/1.1 200")
    until(lambda: ended(daemon) == before + 1)
    tap.same("a client that leaves pays what was held",
             (ended(daemon) - before, left(daemon, "fay")), (1, ALL - 100))


def test_without_daemon(tap, app, daemon, program, policy):
    port = int(daemon.url.rsplit(":", 1)[1])
    daemon.kill()
    tap.same("without a daemon requests pass",
             [app.get("eve")[0] for _ in range(5)], [200] * 5)
    Daemon(program, policy, port=port)
    tap.check("when it is back, limits apply again", until(
        lambda: app.get("eve")[1].get("x-ratelimit-limit") == "3"))


def main():
    program, policy, name, ready = sys.argv[1:5]
    tap = Tap()
    daemon = Daemon(program, policy)
    os.environ.pop("SLUICE_TOKEN", None)
    app = App(sys.argv[5:], ready, daemon)
    test_hello(tap, app)
    test_holds(tap, app, daemon)
    if name == "spring":
        test_leaving(tap, app, daemon)
    test_without_daemon(tap, app, daemon, program, policy)
    app.process.stop()
    tap.done()


if __name__ == "__main__":
    main()
