#!/usr/bin/python3
"""examples -- examples/spring and examples/camel against a daemon with a clock
of its own, and the requirements that they show.

usage: examples.py spring|camel SLUICED-FOR-TESTS POLICY COMMAND...
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from tap import Daemon, Process, Tap, fetch, until  # noqa: E402
from ports import accepts, free_port  # noqa: E402

START = "2026-03-01T10:00:00Z"


class App:
    """An application that serves."""

    def __init__(self, command, daemon):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        # On a busy machine an answer may take longer than 250 ms.
        self.process = Process(
            command, lambda line: "Started" in line or "started" in line,
            env={"SLUICE_URL": daemon.url, "SLUICE_DEADLINE_MS": "30000",
                 "PORT": str(self.port)})
        if not until(lambda: accepts(self.port)):
            raise SystemExit("Bail out! the application does not serve")

    def post(self, path, **headers):
        status, found, text = fetch(
            self.url + path, {}, headers={"Content-Type": "application/json",
                                          **headers})
        return status, found, json.loads(text)


# ---- 000: tiers, both buckets, exact bodies ----

AI = "/api/v1/ai/extract"


def minute_body(count, time):
    return {"status": 429, "error": "Too Many Requests",
            "message": f"Rate limit exceeded. Maximum {count} AI requests per "
            "minute. Please try again shortly.", "timestamp": time}


def test_spring(tap, app, daemon):
    def ask(name, times=1):
        return [app.post(AI, **{"X-User": f"{name}@example.org"})
                for _ in range(times)]

    status, headers, body = ask("ann")[0]
    tap.same("pro: the first of a burst of 40", (
        status, headers.get("x-ratelimit-limit"),
        headers.get("x-ratelimit-remaining"), body),
        (200, "30", "39", {"text": "what the document says"}))
    answers = ask("fred", 9)
    tap.same("free: 8 pass, the ninth is denied",
             [answer[0] for answer in answers], [200] * 8 + [429])
    status, headers, body = answers[8]
    tap.same("free: the body is exact, with its type",
             (body, headers["content-type"]),
             (minute_body(5, START), "application/json"))
    tap.same("free: the headers of a denial", [headers.get(name) for name in (
        "x-ratelimit-limit", "x-ratelimit-remaining", "retry-after")],
        ["5", "0", "12"])
    daemon.at("2026-03-01T10:00:12Z")
    tap.same("free: 12 seconds later one passes",
             [answer[0] for answer in ask("fred", 2)], [200, 429])
    tap.same("business: a burst of 80",
             [answer[0] for answer in ask("eve", 81)], [200] * 80 + [429])
    spend_day(tap, daemon, ask)
    tap.same("callers without an account are not limited",
             {app.post(AI)[0] for _ in range(20)} |
             {answer[0] for answer in ask("unknown", 20)}, {200})
    tap.same("other paths are not limited", {fetch(
        app.url + "/api/v1/documents",
        headers={"X-User": "fred@example.org"})[0] for _ in range(20)}, {200})
    count = json.loads(fetch(app.url + "/actuator/metrics/sluice.checks?tag="
                             "result:denied&tag=limit:ai-minute")[2])
    tap.same("denials are counted", count["measurements"][0]["value"], 3.0)


def spend_day(tap, daemon, ask):
    """200 a day of starter: 20 at once, then 15 a minute."""
    passed = 0
    for minute in range(14):
        daemon.at(f"2026-03-01T11:{minute:02d}:00Z")
        answers = ask("bob", 20 if minute == 0 else 15)
        passed += sum(answer[0] == 200 for answer in answers)
        if answers[-1][0] != 200:
            break
    tap.check("starter: the day ends after 200, and what came back meanwhile",
              200 <= passed <= 202, passed)
    tap.same("starter: the body of the day", answers[-1][2], {
        "status": 429, "error": "Too Many Requests", "message":
        "Daily AI request limit of 200 exceeded. Limit resets in 24 hours.",
        "timestamp": f"2026-03-01T11:{minute:02d}:00Z"})


# ---- 004: tenants and users ----

def test_camel(tap, app, daemon):
    def ask(times, path="/api/rules", **who):
        return [app.post(path, **who) for _ in range(times)]

    ann = {"tenantId": "tenant-1", "userId": "ann"}
    answers = ask(101, **ann)
    tap.same("a user has 100, request 101 is denied",
             [answer[0] for answer in answers], [200] * 100 + [429])
    tap.same("the answer of the route", answers[0][2], {"rule": "created"})
    tap.same("its headers", answers[0][1].get("x-ratelimit-remaining"), "99")
    status, headers, body = answers[100]
    tap.same("the body is exact", body, {
        "error": "Rate limit exceeded", "message":
        "User rate limit exceeded. Retry after 1 seconds",
        "retryAfterSeconds": 1})
    tap.same("the headers of a denial",
             (headers.get("retry-after"), headers.get("content-type")),
             ("1", "application/json"))
    tap.same("another user passes",
             ask(1, tenantId="tenant-1", userId="bob")[0][0], 200)
    tap.same("spans have the same limits",
             [ask(1, "/api/spans", **ann)[0][0],
              ask(1, "/api/spans", tenantId="tenant-1", userId="bob")[0][0]],
             [429, 200])
    # Each denial has cost the tenant nothing: 102 of 1000 are used.
    answers = ask(899, tenantId="tenant-1")
    tap.same("a tenant has 1000", [answer[0] for answer in answers],
             [200] * 898 + [429])
    tap.same("the body of the tenant", answers[-1][2]["message"],
             "Tenant rate limit exceeded. Retry after 1 seconds")
    tap.same("another tenant passes", ask(1, tenantId="tenant-2")[0][0], 200)
    tap.same("without a tenant it is 401", ask(1)[0][0], 401)
    metrics = fetch(app.url + "/metrics")[2]
    for line in (
            'fluo_ratelimit_allowed_total{tenant_id="tenant-1",'
            'user_id="authenticated"} 102.0',
            'fluo_ratelimit_allowed_total{tenant_id="tenant-1",'
            'user_id="unauthenticated"} 898.0',
            'fluo_ratelimit_violations_total{limit_type="user",'
            'tenant_id="tenant-1"} 2.0',
            'fluo_ratelimit_violations_total{limit_type="tenant",'
            'tenant_id="tenant-1"} 1.0',
            'fluo_ratelimit_retry_after_seconds{tenant_id="tenant-1"}'):
        tap.check(f"metrics: {line}", line in metrics, metrics)


def main():
    name, program, policy = sys.argv[1:4]
    tap = Tap()
    daemon = Daemon(program, policy, "--clock=virtual")
    daemon.at(START)
    os.environ.pop("SLUICE_TOKEN", None)
    app = App(sys.argv[4:], daemon)
    {"spring": test_spring, "camel": test_camel}[name](tap, app, daemon)
    daemon.kill()
    tap.same("without a daemon requests pass", app.post(
        AI if name == "spring" else "/api/rules",
        **{"X-User": "fred@example.org", "tenantId": "t"})[0], 200)
    app.process.stop()
    tap.done()


main()
