#!/usr/bin/python3
"""conformance -- one client, by its runner, against a server that behaves as
clients/conformance.json says, and worse.

usage: conformance.py TABLE SLUICE COMMAND...

COMMAND is the runner of a language. It reads one JSON object per line:

  {"url", "client", "request", "times", "response"}

makes the call, and prints one JSON object per line: the `result` of a check,
`all` of check_all, `answer` of the other calls, or an `error`; and `user`, what
middleware sends to the user. clients/README.md describes the members. Calls
beyond the table:

  {"call": "many", "check", "count", "at_once"}   the answer counts
      `verdicts` and each kind of failure, and has the open descriptors
      `before`, and `after` the client was closed
  {"call": "webhook", "scheme", "secret", "headers", "body", "now"}   the answer
      is {"valid": true} or {"valid": false}
  {"call": "user", "check"}   prints `user`, by middleware with a client of its
      own; for runners that do not print it with the result of a check
"""

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

from tap import Tap

ALLOWED = {
    "allowed": True, "status": 200, "code": None, "message": None, "by": None,
    "retry_after_ms": None, "request_id": "r1", "degraded": False,
    "hold": None, "limits": [], "headers": {}, "append_headers": [],
    "body": None}


class Server:
    """A server that does to each request what `daemon` says."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.asked = 0
        self.connections = 0
        self.last = None
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.open = set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.ended.set()
        with self.lock:
            links = list(self.open)
        for sock in [self.listener, *links]:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()

    def _accept(self):
        while True:
            try:
                link = self.listener.accept()[0]
            except OSError:
                return
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.open.add(link)
                self.connections += 1
            threading.Thread(target=self._serve, args=(link,),
                             daemon=True).start()

    def _serve(self, link):
        try:
            file = link.makefile("rb")
            while self._one(link, file):
                pass
        except (OSError, ValueError):
            pass
        finally:
            with self.lock:
                self.open.discard(link)
            link.close()

    def _one(self, link, file):
        line = file.readline().decode("latin-1").split()
        if len(line) != 3:
            return False
        headers = {}
        while True:
            field = file.readline().decode("latin-1").rstrip("\r\n")
            if not field:
                break
            name, _, value = field.partition(":")
            headers[name.lower()] = value.strip()
        body = file.read(int(headers.get("content-length") or 0))
        with self.lock:
            self.asked += 1
            asked = self.asked
            self.last = {"method": line[0], "path": line[1],
                         "headers": headers, "text": body}
        return self._answer(link, asked)

    def _answer(self, link, asked):
        daemon = self.daemon
        if isinstance(daemon, dict) and "dies_after" in daemon:
            if asked > daemon["dies_after"]:
                self.close()
                return False
            daemon = {"status": 200, "body": ALLOWED}
        if daemon == "timeout":
            self.ended.wait(60)
            return False
        if daemon == "reset":
            return False
        if daemon == "malformed":
            link.sendall(b"this is not HTTP\r\n\r\n")
            return False
        if isinstance(daemon, dict) and "bytes" in daemon:
            link.sendall(daemon["bytes"])
            return False
        text = daemon["text"] if "text" in daemon else json.dumps(
            daemon["body"], ensure_ascii=False)
        text = text.encode()
        head = [f"HTTP/1.1 {daemon['status']} Some words"]
        head += [f"{name}: {value}" for name, value
                 in daemon.get("headers", {}).items()]
        head += [f"Content-Length: {len(text)}", "", ""]
        interim = b"HTTP/1.1 102 Processing\r\n\r\n" * daemon.get("interim", 0)
        data = interim + "\r\n".join(head).encode() + text
        if daemon.get("drip"):  # alive, but far too slow
            for at in range(len(data)):
                link.sendall(data[at:at + 1])
                if self.ended.wait(0.05):
                    return False
            return True
        if daemon.get("missing"):
            link.sendall(data[:-daemon["missing"]])
            return False
        link.sendall(data)
        return True


class Runner:
    """The runner of a language."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(self, server, case):
        # On a busy machine an answer may take longer than 250 ms.
        client = {} if case.get("daemon") == "timeout" else \
            {"deadline_ms": 30000}
        order = {"url": server.url if server else "http://127.0.0.1:1",
                 "client": {**client, **case.get("client", {})},
                 "request": case["request"],
                 "times": case.get("times", 1),
                 "response": case.get("response", {})}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("Bail out! the runner has ended in the case "
                             + case["name"])
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        return self.process.wait(timeout=60)


def differences(got, want, where=""):
    """What in `want` is not in `got`."""
    for name, value in want.items():
        if name in ("asked", "user", "all"):
            continue
        found = got.get(name)
        if value == "any":
            if not isinstance(found, (int, float)):
                yield f"{where}{name} is {found!r} and not a number"
        elif found != value or type(found) is not type(value) and \
                not isinstance(found, (int, float)):
            yield f"{where}{name} is {found!r}, want {value!r}"


def compare(case, got, server):
    want = case["expect"]
    if want.get("asked") is not None and server.asked != want["asked"]:
        yield f"the server got {server.asked} requests, want {want['asked']}"
    yield from compare_sends(case.get("sends"), server.last)
    if "error" in want:
        yield from differences(got.get("error") or {"no": "error"},
                               want["error"], "error.")
    elif "error" in got:
        yield f"an error: {got['error']}"
    elif "all" in want:
        if len(got["all"]) != len(want["all"]):
            yield f"{len(got['all'])} results"
        for one, other in zip(got["all"], want["all"]):
            yield from differences(one, other)
    elif "answer" in want:
        if got["answer"] != want["answer"]:
            yield f"the answer is {got['answer']}"
    elif "state" in want:
        yield from differences(dict(got["answer"], failure=None), want)
    else:
        yield from differences(got.get("result") or {}, want)
    if "user" in want:
        yield from compare_user(want["user"], got["user"])


def compare_sends(want, last):
    if not want:
        return
    for name in ("method", "path"):
        if name in want and last[name] != want[name]:
            yield f"sent {name} {last[name]!r}, want {want[name]!r}"
    for name, value in want.get("headers", {}).items():
        if last["headers"].get(name.lower()) != value:
            yield f"sent {name}: {last['headers'].get(name.lower())}"
    if "body" in want and json.loads(last["text"]) != want["body"]:
        yield f"sent {last['text']!r}"


def compare_user(want, got):
    if got.get("status") != want.get("status"):
        yield f"the user gets {got.get('status')}, want {want.get('status')}"
    headers = {name.lower(): value for name, value in got["headers"].items()}
    wanted = {name.lower(): value for name, value in want["headers"].items()}
    headers = {name: value for name, value in headers.items()
               if name in wanted or not framework_adds(name, want)}
    if headers != wanted:
        yield f"the user gets {headers}\nwant {wanted}"
    if "body" in want and got.get("body") != want["body"]:
        yield f"the user gets {got.get('body')}"


def framework_adds(name, want):
    """Headers that are not from the verdict or the application."""
    return name in ("content-length", "date", "connection", "server",
                    "transfer-encoding") or \
        name == "content-type" and not want.get("status")


def ask_user(runner, case):
    """What middleware sends to the user, from a server of its own."""
    server = Server(case["daemon"])
    got = runner.call(server, dict(case, request=dict(case["request"],
                                                      call="user")))
    server.close()
    return got


def ask(runner, case, deadline_ms=250):
    """The answer of the client, and the server that it has asked. A client whose
    time is over before a busy machine has sent its request gets more."""
    server = Server(case["daemon"])
    got = runner.call(server, case)
    while case["daemon"] == "timeout" and deadline_ms < 30000 and \
            server.asked < case["expect"]["asked"]:
        server.close()
        deadline_ms *= 4
        server = Server(case["daemon"])
        got = runner.call(server, dict(case, client={
            **case.get("client", {}), "deadline_ms": deadline_ms}))
    return got, server


def run_table(tap, runner, table):
    for case in table:
        got, server = ask(runner, case)
        if "user" in case["expect"] and "user" not in got:
            got.update(ask_user(runner, case))
        tap.check(case["name"], not list(compare(case, got, server)),
                  "\n".join(compare(case, got, server)))
        server.close()


# ---- beyond the table ----

CHECK = {"call": "check", "check": {"path": "/a", "user": "ann"}}


def run_slow(tap, runner):
    """A daemon that answers byte by byte is out of time as a whole."""
    server = Server({"status": 200, "body": ALLOWED, "drip": True})
    began = time.monotonic()
    got = runner.call(server, {"name": "slow", "request": CHECK,
                               "daemon": "timeout"})
    took = time.monotonic() - began
    tap.check("slow: an answer that drips is a time-out",
              got.get("result", {}).get("failure") == "timeout", got)
    tap.check("slow: it ends long before the answer", took < 10, took)
    server.close()


def run_garbage(tap, runner):
    """Whatever bytes arrive, the call ends with a failure."""
    dice = random.Random(7)
    good = (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
            % len(json.dumps(ALLOWED))) + json.dumps(ALLOWED).encode()
    cases = [
        b"", b"\0" * 64, b"HTTP/1.1 200 OK\r\n\r\n", good[:-1], good[:60],
        good.replace(b"200 OK", b"20 OK"),
        good.replace(b"Content-Length: ", b"Content-Length: -"),
        good.replace(b"Content-Length: ", b"Content-Length: 9999999"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\xff\xfe\xfd\xfc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100000,
        good.replace(b'"status": 200', b'"status": "2"'),
        good.replace(b'"status": 200', b'"status": 99999'),
        good.replace(b'"headers": {}', b'"headers": []'),
        good.replace(b'"limits": []', b'"limits": 12'),
    ]
    cases += [bytes(dice.randrange(256) for _ in range(dice.randrange(200)))
              for _ in range(20)]
    failed = []
    for at, data in enumerate(cases):
        server = Server({"bytes": data})
        got = runner.call(server, {"name": f"garbage {at}", "request": CHECK,
                                   "client": {"deadline_ms": 2000}})
        result = got.get("result") or {}
        if not (result.get("allowed") is True and result.get("degraded") and
                result.get("failure") in ("malformed", "unreachable",
                                          "timeout")):
            failed.append((data[:80], got))
        server.close()
    tap.check(f"garbage: {len(cases)} answers are failures", not failed,
              failed[:3])


def run_many(tap, runner):
    server = Server({"status": 200, "body": ALLOWED})
    answer = runner.call(server, {
        "name": "many", "client": {"deadline_ms": 60000},
        "request": {"call": "many", "check": CHECK["check"], "count": 10000,
                    "at_once": 200}})["answer"]
    tap.same("many: 10,000 calls are answered", answer.get("verdicts"), 10000)
    tap.same("many: each is asked once", server.asked, 10000)
    tap.check("many: connections are kept", server.connections <= 1000,
              server.connections)
    tap.check("many: no descriptor leaks",
              answer["after"] <= answer["before"] + 2, answer)
    server.close()
    server = Server({"dies_after": 500})
    answer = runner.call(server, {
        "name": "dies", "client": {"deadline_ms": 5000},
        "request": {"call": "many", "check": CHECK["check"], "count": 5000,
                    "at_once": 50}})["answer"]
    total = sum(value for name, value in answer.items()
                if name not in ("before", "after"))
    tap.same("killed: every call has a result", total, 5000)
    tap.check("killed: the results before it are verdicts, the others are not",
              400 <= answer.get("verdicts", 0) <= 500, answer)
    tap.check("killed: the breaker opens", answer.get("open", 0) > 3000,
              answer)
    tap.check("killed: no descriptor leaks",
              answer["after"] <= answer["before"] + 2, answer)
    server.close()


def run_webhooks(tap, runner, sluice):
    """What `sluice webhook sign` signs is verified, and nothing else."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    with open("secret", "w", encoding="ascii") as file:
        file.write(secret + "\n")
    for scheme in ("standard-webhooks", "stripe", "hmac-sha256"):
        for body in ('{"type":"done"}', '{"text":"größer ☃"}', ""):
            command = [sluice, "webhook", "sign", "--scheme", scheme,
                       "--secret-file", "secret"]
            if scheme == "standard-webhooks":
                command += ["--id", "msg_1"]
            if scheme != "hmac-sha256":
                command += ["--timestamp", "1000"]
            signed = subprocess.run(command + ["-"], input=body.encode(),
                                    stdout=subprocess.PIPE, check=True)
            headers = dict(line.split(": ", 1) for line
                           in signed.stdout.decode().splitlines())
            order = {"call": "webhook", "scheme": scheme, "secret": secret,
                     "headers": headers, "body": body, "now": 1100}
            # Each is the order with one thing changed, and the answer.
            rows = [("signed", {}, True),
                    ("another body", {"body": body + " "}, False),
                    ("another secret",
                     {"secret": "whsec_" + secret[6:][::-1]}, False),
                    ("no signature", {"headers": {}}, False)]
            if scheme != "hmac-sha256":
                rows += [("too old", {"now": 1301}, False),
                         ("from the future", {"now": 699}, False),
                         ("at the edge", {"now": 1300}, True)]
            for name, change, want in rows:
                got = runner.call(None, {"name": name,
                                         "request": {**order, **change}})
                tap.same(f"webhook: {scheme}, {len(body)} letters, {name}",
                         got.get("answer"), {"valid": want})


def main():
    table, sluice, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(table, encoding="utf-8") as file:
        table = json.load(file)
    os.chdir(os.environ.get("TMPDIR", "/tmp"))
    tap = Tap()
    runner = Runner(command)
    run_table(tap, runner, table)
    run_slow(tap, runner)
    run_garbage(tap, runner)
    run_many(tap, runner)
    run_webhooks(tap, runner, sluice)
    tap.same("the runner ends", runner.close(), 0)
    tap.done()


main()
