#!/usr/bin/python3
"""jobseek -- fixed windows for anonymous, free and premium users: the preset in
DynamoDB (dynalite of npm), behind Caddy.

usage: jobseek.py SLUICED SLUICED-TEST SLUICE [--write]
"""

import datetime
import os
import sys
import threading

import driver
from driver import names
from servers import (MODULES, Daemon, Dynamo, Proxy, Redis, Web, clock_by,
                     end, numbers, signer, told, until)

SESSION = "POST /api/wallcrawler/session"
SEARCH, APPLY = "GET /api/search", "POST /api/apply/7"
HOUR, DAY = "RATE_LIMIT#1772107200000", "RATE_LIMIT#1772064000000"
ADDRESS = "2026-11-15-anonymous-callers-limited-by-address"
FAILURE = "2026-11-15-store-failure-in-presets"


class Fixture(Daemon):
    """One daemon for all lines, and Caddy before it."""

    def __init__(self):
        self.dynamo = Dynamo()
        super().__init__("jobseek.yaml", "--store", self.dynamo.url, "--usage",
                         self.dynamo.url, "--forward-auth", "forwarded")
        self.sign = signer(self.folder)
        self.start()
        self.proxy = Proxy("caddy", self)

    def one(self, path, **members):
        return self.check(path, **{"ip": "192.0.2.1", **members})

    def some(self, count, path, **members):
        return self.burst(count, path, **{"ip": "192.0.2.1", **members})

    def premium(self, user, expiry=None, tier="premium"):
        """A profile in the table of users."""
        more = {"subscriptionExpiry": expiry} if expiry else {}
        self.dynamo.put(userId=user, dataType="PROFILE", subscriptionTier=tier,
                        **more)

    def over_caddy(self, path=SESSION, user=None, **head):
        if user:
            head["Cookie"] = "next-auth.session-token=" + self.sign(sub=user)
        return self.proxy.ask(path, {k.replace("_", "-"): v
                                     for k, v in head.items()})

    def policy_with(self, *changes):
        """Another policy; the shipped one without changes."""
        with open(self.policy, encoding="utf-8") as file:
            text = file.read()
        for old, new in changes:
            text = text.replace(old, new)
        self.must(self.admin.ask("POST", "/v1/policy", text))


system = driver.System(
    "jobseek: fixed windows for anonymous, free and premium users", "003-",
    Fixture)
line = system.line


@line("003-R01", "limits by tier, kept in DynamoDB")
def _(d):
    d.one(SESSION, user="123")
    yield "the row of a session", d.dynamo.rows()[("session:user:123", HOUR)][
        "count"], "1"
    yield "limit of free and premium", [
        numbers(d.one(SESSION, user="124", plan=plan))[0]
        for plan in ("free", "premium")], [10, 50]


@line("003-R02", "windows aligned to the hour and to midnight UTC")
def _(d):
    d.at("2026-02-26T14:35:00Z")
    yield "at 14:35, a session: end of the window", d.one(
        SESSION, user="u")["headers"]["X-RateLimit-Reset"], "1772118000"
    yield "an application", d.one(APPLY, user="u")["headers"][
        "X-RateLimit-Reset"], "1772150400"


@line("003-K01", "start and end of a window")
def _(d):
    d.at("2026-02-26T12:59:59.999Z")
    d.one(SESSION, user="u")
    row = d.dynamo.rows()[("session:user:u", HOUR)]
    yield ("at 12:59:59.999: start of the window, and resetTime", (
        HOUR.partition("#")[2], row["resetTime"]),
           ("1772107200000", "1772110800000"))


@line("003-K02", "keys of the table")
def _(d):
    d.one(SESSION, user="123")
    yield "rows of a session", [key for key in sorted(d.dynamo.rows())
                                if key[0].startswith("session:")], [
        ("session:user:123", HOUR)]
    yield "the table", d.dynamo.TABLE in d.dynamo.url, True


@line("003-K03", "attributes count, resetTime, ttl")
def _(d):
    d.one(SESSION, user="123")
    yield "row of a session", d.dynamo.rows()[("session:user:123", HOUR)], {
        "count": "1", "resetTime": "1772110800000", "ttl": "1772114400"}


@line("003-N01", "row `search:user:123`")
def _(d):
    d.fresh("2024-01-01T00:30:00Z")
    d.some(45, SEARCH, user="123")
    yield "45 searches", d.dynamo.rows()[
        ("search:user:123", "RATE_LIMIT#1704067200000")], {
            "count": "45", "resetTime": "1704070800000", "ttl": "1704074400"}


@line("003-N02", "row `apply:anon:abc123`")
def _(d):
    d.fresh("2024-01-01T00:30:00Z")
    d.some(12, APPLY)
    rows = {key[1]: row for key, row in d.dynamo.rows().items()
            if key[0].startswith("apply:anon:")}
    yield "12 applications of an anonymous caller", rows, {
        "RATE_LIMIT#1704067200000": {"count": "12", "resetTime":
                                     "1704153600000", "ttl": "1704157200"}}


@line("003-K04", "types session, search, apply; anon, user")
def _(d):
    for path in (SESSION, SEARCH, APPLY):
        d.one(path)
        d.one(path, user="7")
    seen = sorted({":".join(key[0].split(":")[:2]) for key in d.dynamo.rows()
                   if not key[0].startswith("sluice:")})
    yield "rows", seen, ["apply:anon", "apply:user", "search:anon",
                         "search:user", "session:anon", "session:user"]


@line("003-R03", "anonymous callers by address, browser and language")
def _(d):
    def ask(**head):
        return d.over_caddy(**head).status
    mine = {"User_Agent": "A", "Accept_Language": "de"}
    yield "behind Caddy, six of one browser", [
        ask(**mine) for _ in range(6)][4:], [200, 429]
    yield "another browser", ask(User_Agent="B", Accept_Language="de"), 200
    yield "another language", ask(User_Agent="A", Accept_Language="fr"), 200
    rows = [key[0] for key in d.dynamo.rows() if key[0].startswith("session:")]
    yield "rows, all `session:anon:`", [
        row.startswith("session:anon:") for row in rows], [True, True, True]


@line("003-R04", "users by the id of the session")
def _(d):
    yield "cookie of user 123 behind Caddy", d.over_caddy(user="123").status, 200
    yield "its row", [key[0] for key in d.dynamo.rows()
                      if key[0].startswith("session:")], ["session:user:123"]


@line("003-R05", "premium until its expiry")
def _(d):
    d.premium("7", "2026-02-26T12:30:00Z")
    yield "profile until 12:30, at 12:00", d.one(SESSION, user="7")[
        "limits"][0]["plan"], "premium"
    d.at("2026-02-26T12:29:59Z")
    yield "to its last second: limit", numbers(d.one(SESSION, user="7"))[0], 50
    d.at("2026-02-26T12:30:00Z")
    yield "then", numbers(d.one(SESSION, user="7"))[0], 10
    yield "under the same key", [key[0] for key in d.dynamo.rows()
                                 if key[0].startswith("session:")], [
        "session:user:7"]


def tier(name, text, members, session, search, apply):
    def look(d):
        if members.get("user") == "p":
            d.premium("p", "2026-12-31T23:59:59Z")
        for what, path, most, by in (
                ("sessions in an hour", SESSION, session, "session"),
                ("searches", SEARCH, search, "search"),
                ("applications in a day", APPLY, apply, "apply")):
            if most > 50:
                d.one(path, cost={by: most - 10}, **members)
                what += f", {most - 10} and eleven more"
                most = 10
            yield (what, d.some(most + 1, path, **members),
                   f"{most} pass, then 429 by {by}")
    line(name, text)(look)


tier("003-N03", "anonymous: 5/h, 50/h, 20/day", {}, 5, 50, 20)
tier("003-N04", "free: 10/h, 100/h, 50/day", {"user": "f"}, 10, 100, 50)
tier("003-N05", "premium: 50/h, 500/h, 200/day", {"user": "p"}, 50, 500, 200)


@line("003-R06", "the first request creates the row")
def _(d):
    key = ("session:user:1", HOUR)
    yield "before", key in d.dynamo.rows(), False
    d.one(SESSION, user="1")
    yield "after: count", d.dynamo.rows()[key]["count"], "1"


@line("003-R07", "later requests count by a conditional update")
def _(d):
    d.one(SESSION, user="1")
    d.dynamo.counts()
    d.one(SESSION, user="1")
    made = d.dynamo.counts()
    yield "writes of one more request", {
        name: made[name] for name in made
        if name in ("UpdateItem", "PutItem", "TransactWriteItems")}, {
            "TransactWriteItems": 1}
    d.one(SESSION, user="1", cost=8)
    d.dynamo.counts()
    yield "at the limit", d.some(3, SESSION, user="1"), (
        "0 pass, then 429 by session")
    yield "count", d.dynamo.rows()[("session:user:1", HOUR)]["count"], "10"


def race(d, user, each):
    """Two daemons, two connections each, ask at once; how many passed."""
    other = Daemon("jobseek.yaml", "--store", d.dynamo.url).start()
    passed = []

    def ask(where):
        web = Web(where)
        for _ in range(each):
            passed.append(web.ask("POST", "/v1/check", {
                "path": "/api/wallcrawler/session", "method": "POST",
                "user": user, "ip": "192.0.2.1"}).json["allowed"])
    threads = [threading.Thread(target=ask, args=[where])
               for where in 2 * [d.where, other.where]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.stop()
    return len(passed), passed.count(True)


@line("003-R08", "the loser of a race retries")
def _(d):
    yield ("two daemons, 20 first requests of a user at once: asked and passed",
           race(d, "u", 5), (20, 10))
    yield "count", d.dynamo.rows()[("session:user:u", HOUR)]["count"], "10"


@line("003-R09", "TTL an hour after the window")
def _(d):
    d.one(SESSION, user="u")
    d.one(APPLY, user="u")
    rows = d.dynamo.rows()
    yield ("ttl - resetTime of an hour and of a day, in s", [
        int(rows[key]["ttl"]) - int(rows[key]["resetTime"]) // 1000
        for key in (("session:user:u", HOUR), ("apply:user:u", DAY))],
           [3600, 3600])


@line("003-R10", "allowed, limit, remaining, resetTime")
def _(d):
    verdict = d.one(SESSION, user="u")
    yield ("verdict: allowed, limit, remaining", (
        verdict["allowed"], *numbers(verdict)), (True, 10, 9))
    yield "ms to the end of the window", verdict["limits"][0]["reset_ms"], 3600000


@line("003-S01", "429")
def _(d):
    yield "behind Caddy, the sixth", [
        d.over_caddy().status for _ in range(6)][5], 429


@line("003-E01", "body of a 429")
def _(d):
    d.at("2026-02-26T14:35:00Z")
    answer = [d.over_caddy() for _ in range(6)][5]
    yield "behind Caddy", answer.text, (
        '{"error":"Rate limit exceeded","limit":5,"remaining":0,"resetTime":'
        '"2026-02-26T15:00:00.000Z"}')
    yield "its type", answer["Content-Type"], "application/json"


@line("003-R11", "premium is checked on each request")
def _(d):
    d.premium("7", "2026-02-26T13:00:00Z")
    yield "premium, limit", numbers(d.one(SESSION, user="7"))[0], 50
    d.premium("7", "2026-02-26T13:00:00Z", tier="free")
    d.at("2026-02-26T12:00:06Z")
    yield "cancelled in the table, 6 s later", numbers(
        d.one(SESSION, user="7"))[0], 10
    d.premium("8", "2026-02-26T11:59:59Z")
    yield "expiry in the past", numbers(d.one(SESSION, user="8"))[0], 10


def without_store(d):
    """A daemon whose DynamoDB is gone."""
    away = Dynamo()
    daemon = Daemon("jobseek.yaml", "--store", away.url).start()
    end(away.process, "kill")
    return daemon


@line("003-R12", "store errors are logged and allowed", decision=FAILURE)
def _(d):
    daemon = without_store(d)
    verdicts = daemon.checks(7, SESSION, ip="192.0.2.1")
    yield "DynamoDB killed, anonymous", told(verdicts), "7 pass"
    yield "marked as degraded", all(v["degraded"] for v in verdicts), True
    until(lambda: daemon.said("Rate limit check failed"))
    yield "in the log: Rate limit check failed", None, None
    daemon.stop()


@line("003-T01", "six anonymous requests, the sixth is 429")
def _(d):
    yield "behind Caddy", [d.over_caddy().status for _ in range(6)], [
        200, 200, 200, 200, 200, 429]


@line("003-T02", "eleven sessions of one user")
def _(d):
    yield "behind Caddy with the cookie, the last two", [
        d.over_caddy(user="123").status for _ in range(11)][9:], [200, 429]


@line("003-T03", "premium: fifty")
def _(d):
    d.fresh("2025-12-31T22:00:00Z")
    d.premium("7", "2025-12-31T23:59:59Z")
    yield "premium until 2025-12-31T23:59:59Z, two hours before", d.some(
        51, SESSION, user="7"), "50 pass, then 429 by session"


@line("003-M01", "logs to watch")
def _(d):
    d.some(6, SESSION, ip="192.0.2.99")
    until(lambda: d.said("Rate limit exceeded"))
    yield "in the log: Rate limit exceeded", None, None
    d.some(40, SESSION, user="often")
    status, out = d.cli("top")
    yield "`sluice top` has a user that hits limits often", (
        status, "often" in out), (0, True)


@line("003-R13", "`POST /api/wallcrawler/session`")
def _(d):
    yield "limits of the route", [p["name"] for p in d.one(SESSION)["limits"]], [
        "session", "session-ip", "address"]
    yield "GET of the same path", d.some(
        100, "GET /api/wallcrawler/session"), "100 pass"


@line("003-F01", "Redis as a cache")
def _(_):
    redis = Redis()
    daemon = Daemon("jobseek.yaml", "--store", redis.url).start()
    yield "on a Redis, by one line", daemon.burst(6, SESSION, ip="192.0.2.1"), (
        "5 pass, then 429 by session")
    daemon.stop()
    redis.kill()


@line("003-F02", "sliding windows")
def _(d):
    d.policy_with(("kind: fixed-window", "kind: sliding-window"))
    d.at("2026-02-26T12:59:59Z")
    yield "ten at 12:59:59", d.some(10, SESSION, user="u"), "10 pass"
    d.at("2026-02-26T13:00:00Z")
    yield "ten more a second later", d.some(10, SESSION, user="u"), (
        "0 pass, then 429 by session")
    d.policy_with()


@line("003-F03", "bursts")
def _(d):
    d.policy_with(("    kind: fixed-window\n    per: user\n    missing: "
                   "anonymous\n    rate: { anon: 5/hour, free: 10/hour",
                   "    kind: token-bucket\n    per: user\n    missing: "
                   "anonymous\n    rate: { anon: 5/hour, free: 10/hour burst 15"))
    yield "`10/hour burst 15`", d.some(16, SESSION, user="u"), (
        "15 pass, then 429 by session")
    d.policy_with()


@line("003-F04", "limits by address as well", decision=ADDRESS)
def _(d):
    d.one(SESSION, user="a", cost={"address": 1200})
    yield "1200 from one address, another user", d.some(1, SESSION, user="b"), (
        "0 pass, then 429 by address")
    yield "from another address", d.some(1, SESSION, user="b", ip="192.0.2.2"), (
        "1 pass")


@line("003-F05", "more tiers")
def _(d):
    d.policy_with(("  premium: {}", "  premium: {}\n  gold: {}"),
                  ("premium: 50/hour }", "premium: 50/hour, gold: 70/hour }"),
                  ("premium: 500/hour }", "premium: 500/hour, gold: 700/hour }"),
                  ("premium: 200/day }", "premium: 200/day, gold: 300/day }"),
                  ("premium: unlimited }", "premium: unlimited, gold: unlimited }"))
    yield "plan gold", d.some(71, SESSION, user="g", plan="gold"), (
        "70 pass, then 429 by session")
    d.policy_with()


@line("003-B01", "one exception has three meanings")
def _(d):
    d.one(SESSION, user="u", cost=10)
    d.dynamo.counts()
    yield "at the limit", d.some(5, SESSION, user="u"), (
        "0 pass, then 429 by session")
    yield "requests to DynamoDB for these five are bounded", sum(
        d.dynamo.counts().values()) <= 15, True


@line("003-B02", "unbounded retries")
def _(d):
    yield ("two daemons, 40 requests of a user at once: asked and passed",
           race(d, "v", 10), (40, 10))


@line("003-B03", "the condition ignores the cost")
def _(d):
    d.one(SESSION, user="u", cost=9)
    verdict = d.one(SESSION, user="u", cost=5)
    yield "9 of 10, cost 5: status and remaining", (
        verdict["status"], numbers(verdict)[1]), (429, 1)
    yield "count", d.dynamo.rows()[("session:user:u", HOUR)]["count"], "9"


@line("003-B04", "twice the limit across a window boundary")
def _(d):
    d.at("2026-02-26T12:59:59Z")
    yield "at 12:59:59", d.some(11, SESSION, user="u"), (
        "10 pass, then 429 by session")
    d.at("2026-02-26T13:00:00Z")
    yield "at 13:00:00", d.some(11, SESSION, user="u"), (
        "10 pass, then 429 by session")
    yield names("docs/reference/limits.md", "Up to twice the limit")


@line("003-B05", "each instance uses its own clock")
def _(d):
    while True:
        day = datetime.datetime.utcnow().day
        d.fresh()
        pair = [Daemon("jobseek.yaml", "--store", d.dynamo.url,
                       virtual=False, **env).start()
                for env in ({}, clock_by(86400))]
        for one in pair:
            one.check(APPLY, user="u", ip="192.0.2.1")
            one.stop()
        rows = [row["count"] for key, row in d.dynamo.rows().items()
                if key[0] == "apply:user:u"]
        if day == datetime.datetime.utcnow().day:
            break
    yield "two daemons, clocks a day apart, one request each: rows", rows, ["2"]


@line("003-B06", "a new browser gets a new allowance", decision=ADDRESS)
def _(d):
    passed = sum(d.one(SESSION, headers={"user-agent": f"b{i // 5}"})["allowed"]
                 for i in range(60))
    yield "twelve browsers of one address, 60 sessions, passed", passed, 50
    yield "a signed-in user there", d.some(1, SESSION, user="u"), "1 pass"


@line("003-B07", "signing in gives a new allowance", decision=ADDRESS)
def _(d):
    yield "anonymous", d.some(6, SESSION), "5 pass, then 429 by session"
    yield "then signed in", d.some(11, SESSION, user="u"), (
        "10 pass, then 429 by session")
    d.policy_with(("    report: session\n",
                   "    report: session\n    sign_in: carry\n"))
    d.fresh()
    d.some(5, SESSION)
    yield "with `sign_in: carry`, after five", d.some(11, SESSION, user="u"), (
        "5 pass, then 429 by session")
    d.policy_with()


@line("003-B08", "premium without an expiry counts as free")
def _(d):
    d.premium("7")
    yield "profile without a date: limit", numbers(
        d.one(SESSION, user="7"))[0], 10
    d.premium("8", "2026-02-26T14:00:00+02:00")
    yield "date with a zone, in the past by then", numbers(
        d.one(SESSION, user="8"))[0], 10
    d.premium("9", "2026-02-26")
    yield "date only, on that day", numbers(d.one(SESSION, user="9"))[0], 50


@line("003-B09", "one more read per request")
def _(d):
    d.premium("7", "2099-12-31T23:59:59Z")
    real = Daemon("jobseek.yaml", "--store", d.dynamo.url, "--usage",
                  d.dynamo.url, virtual=False).start()
    yield "a premium user", real.burst(40, SESSION, user="7", ip="192.0.2.1"), (
        "40 pass")
    yield "reads of the profile for these 40 requests, fewer than 10", real.metric(
        'sluice_subject_lookups_total{result="loaded"}') < 10, True
    real.stop()


@line("003-B10", "counters in the table of users")
def _(_):
    other = Dynamo("--table", "limits")
    url = other.url.replace(Dynamo.TABLE, "limits")
    daemon = Daemon("jobseek.yaml", "--store", url).start()
    yield "in a table of its own", daemon.burst(6, SESSION, ip="192.0.2.1"), (
        "5 pass, then 429 by session")
    daemon.stop()
    end(other.process)


@line("003-B11", '"Response Headers" lists none')
def _(d):
    answer = [d.over_caddy() for _ in range(6)][5]
    yield ("429 behind Caddy: Retry-After, X-RateLimit-Limit, -Remaining and "
           "-Reset", [answer[name] for name in (
               "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining",
               "X-RateLimit-Reset")], ["3600", "5", "0", "1772110800"])


@line("003-B12", "the date in the test is in the past")
def _(d):
    d.premium("7", "2025-12-31T23:59:59Z")
    yield "premium until 2025-12-31, in February 2026", d.some(
        11, SESSION, user="7"), "10 pass, then 429 by session"


@line("003-B13", "expired items are removed late")
def _(d):
    d.some(10, SESSION, user="u")
    d.at("2026-02-26T13:00:00Z")
    yield "the row is there, and the next window", (
        ("session:user:u", HOUR) in d.dynamo.rows(),
        d.some(11, SESSION, user="u")), (True, "10 pass, then 429 by session")


@line("003-X01", "a redundant condition")
def _(d):
    d.dynamo.counts()
    d.one(SESSION, user="u")
    yield "a first request is one write", d.dynamo.counts().get(
        "TransactWriteItems"), 1


@line("003-X02", "five originals, five ways to fail", decision=FAILURE)
def _(_):
    seen = {}
    for preset in ("unraveldocs", "jwt-redis", "saas-quotas", "jobseek", "fluo"):
        with open(os.path.join(driver.ROOT, f"presets/{preset}.yaml"),
                  encoding="utf-8") as file:
            modes = {row.split("#")[0].split(":")[1].strip()
                     for row in file if row.strip().startswith("on_store_failure")}
        seen[preset] = " ".join(sorted(modes)) or "default"
    yield "`on_store_failure` of the presets", seen, {
        "unraveldocs": "default", "jwt-redis": "local", "saas-quotas": "deny",
        "jobseek": "allow", "fluo": "local"}


@line("003-X03", "limits per session, and sessions are counted")
def _(d):
    d.some(10, SESSION, user="u")
    yield "ten sessions, then a search", d.some(1, SEARCH, user="u"), "1 pass"
    yield "an eleventh session", d.some(1, SESSION, user="u"), (
        "0 pass, then 429 by session")


if __name__ == "__main__":
    if not os.path.isdir(os.path.join(MODULES, "dynalite")):
        print("1..0 # SKIP dynalite is not installed; run scripts/setup")
        sys.exit(0)
    system.main()
