#!/usr/bin/python3
"""fluo -- a bucket per tenant and per user: the preset on a Redis, behind nginx.

usage: fluo.py SLUICED SLUICED-TEST SLUICE [--write]
"""

import os
import signal
import subprocess
import time

import driver
from driver import names
from servers import (FOLDER, SLUICE, SLUICED, Daemon, Proxy, Redis, clock_by,
                     numbers, told)

RULES = "POST /api/rules"
MAIL = "user-a@example.com"
DEADLINE = "2026-11-15-store-deadline-of-20-ms"
CELLS = "2026-11-15-bucket-cells-store-amount-and-time"
IDENTITY = "2026-11-15-missing-identity"
ENDS = "2026-11-16-keys-end-when-nothing-is-owed"


class Fixture(Daemon):
    """One daemon for all lines, and nginx before it."""

    def __init__(self):
        self.redis = Redis()
        super().__init__("fluo.yaml", "--store", self.redis.url)
        self.start()
        self.proxy = Proxy("nginx", self, "tenantId", "userId")

    def rules(self, count=1, **members):
        return self.burst(count, RULES, **members)

    def over_nginx(self, tenant, user=None, path=RULES):
        head = {"tenantId": tenant} if tenant else {}
        return self.proxy.ask(path, dict(head, userId=user) if user else head)

    def spend(self, org, cost, **members):
        """Take from the bucket of a tenant alone, or of a user too."""
        return self.check(RULES, org=org, cost=cost, **members)

    def ms(self, count):
        """The time so many milliseconds after the start of a line."""
        self.at(f"2026-02-26T12:{count // 60000:02}:"
                f"{count // 1000 % 60:02}.{count % 1000:03}Z")


system = driver.System("fluo: a bucket per tenant and per user", "004-", Fixture)
line = system.line


@line("004-R01", "buckets per tenant and per user")
def _(d):
    parts = [(p["name"], p["kind"]) for p in d.check(
        RULES, org="t", user="ann")["limits"]]
    yield "limits of a request", parts, [("tenant", "token-bucket"),
                                         ("user", "token-bucket")]
    yield "keys in Redis", d.redis.keys(), [
        "ratelimit:tenant:t", "ratelimit:user:t:ann"]


@line("004-R02", "tenants are isolated")
def _(d):
    yield "tenant a", d.rules(1001, org="a"), "1000 pass, then 429 by tenant"
    yield "then tenant b", d.rules(1000, org="b"), "1000 pass"
    yield "user eve of c", d.rules(101, org="c", user="eve"), (
        "100 pass, then 429 by user")
    yield "then user ann of the same tenant", d.rules(
        100, org="c", user="ann"), "100 pass"


@line("004-N01", "tenant: 1000 a minute")
def _(d):
    yield "at once", d.rules(1001, org="t"), "1000 pass, then 429 by tenant"
    d.ms(60000)
    yield "a minute later", d.rules(1001, org="t"), (
        "1000 pass, then 429 by tenant")


@line("004-N02", "user: 100 a minute")
def _(d):
    yield ("at once", d.rules(101, org="t", user="ann"),
           "100 pass, then 429 by user")
    d.ms(60000)
    yield ("a minute later", d.rules(101, org="t", user="ann"),
           "100 pass, then 429 by user")


@line("004-R03", "bursts up to the limit")
def _(d):
    d.rules(100, org="t", user="ann")
    d.ms(599)
    yield "after a burst, 599 ms later", d.rules(1, org="t", user="ann"), (
        "0 pass, then 429 by user")
    d.ms(600)
    yield "600 ms later", d.rules(2, org="t", user="ann"), (
        "1 pass, then 429 by user")


@line("004-R04", "state is shared")
def _(d):
    other = Daemon("fluo.yaml", "--store", d.redis.url).start()
    yield "one daemon", d.rules(60, org="t", user="ann"), "60 pass"
    yield "another on the same Redis", other.burst(
        60, RULES, org="t", user="ann"), "40 pass, then 429 by user"
    other.stop()


@line("004-R05", "tenant first, then user")
def _(d):
    d.rules(100, org="t", user="ann")
    d.spend("t", 900)
    yield ("both empty", d.rules(1, org="t", user="ann"),
           "0 pass, then 429 by tenant")
    yield ("limits of a request without a user",
           [p["name"] for p in d.check(RULES, org="u")["limits"]
            if not p.get("skipped")], ["tenant"])


@line("004-R06", "headers `tenantId`, `userId`")
def _(d):
    tenant = "3f1c2a52-0d57-4a43-9d2c-58d36f1c2b11"
    answer = d.over_nginx(tenant, "ann")
    yield ("behind nginx: status and remaining",
           (answer.status, answer["X-RateLimit-Remaining"]), (200, "99"))
    yield "keys in Redis", d.redis.keys(), [
        f"ratelimit:tenant:{tenant}", f"ratelimit:user:{tenant}:ann"]
    answer = d.over_nginx(tenant)
    yield ("without `userId`: status and remaining",
           (answer.status, answer["X-RateLimit-Remaining"]), (200, "998"))


@line("004-E01", "message of the tenant limit")
def _(d):
    d.spend("t", 1000)
    yield "500 more", d.spend("t", 500)["message"], (
        "Tenant rate limit exceeded. Retry after 30 seconds")


@line("004-E02", "message of the user limit")
def _(d):
    d.spend("t", 100, user="ann")
    yield "50 more", d.spend("t", 50, user="ann")["message"], (
        "User rate limit exceeded. Retry after 30 seconds")


@line("004-R07", "a denial has a message and a wait")
def _(d):
    d.spend("t", 1000)
    verdict = d.spend("t", 1)
    yield "message", verdict["message"], (
        "Tenant rate limit exceeded. Retry after 1 seconds")
    yield "wait in ms", verdict["retry_after_ms"], 60


@line("004-K01", "keys of tenant and user")
def _(d):
    d.rules(1, org="acme", user=MAIL)
    d.rules(1, org="a:b", user="c")
    d.rules(1, org="a", user="b:c")
    yield "keys in Redis", d.redis.keys(), [
        "ratelimit:tenant:a", "ratelimit:tenant:a%3Ab",
        "ratelimit:tenant:acme", "ratelimit:user:a%3Ab:c",
        "ratelimit:user:a:b%3Ac", f"ratelimit:user:acme:{MAIL}"]


@line("004-K02", "both rates are settings")
def _(_):
    path = os.path.join(FOLDER, "application.properties")
    with open(path, "w", encoding="ascii") as file:
        file.write("fluo.ratelimit.tenant.requests-per-minute=200\n"
                   "fluo.ratelimit.user.requests-per-minute=20\n")
    made = subprocess.run([SLUICE, "import", "spring", path],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=True)
    rates = sorted(word.strip() for word in made.stdout.split("\n")
                   if word.strip().startswith("rate:"))
    yield ("`sluice import spring` of the settings with 200 and 20", rates,
           ["rate: 20/min", "rate: 200/min"])


@line("004-K03", "Redis address, timeout 2 s", differs=DEADLINE)
def _(d):
    made = subprocess.run(
        [SLUICED, "-c", d.policy, "--show-settings"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    shown = [" ".join(row.split()[:2]) for row in made.stdout.split("\n")
             if row.strip().startswith(("store ", "deadline "))]
    yield "settings of the preset", sorted(shown), [
        "deadline 20ms", "store redis://localhost:6379"]


@line("004-K04", "arguments of the script", differs=CELLS)
def _(d):
    d.rules(1, org="t", user="ann")
    yield ("type of both keys in Redis: amount and time in one value",
           [d.redis.ask("TYPE", key) for key in d.redis.keys()],
           ["string", "string"])


@line("004-R08", "TTL of 120 s", differs=ENDS)
def _(d):
    real = Daemon("fluo.yaml", "--store", d.redis.url, virtual=False).start()
    real.check(RULES, org="t", cost=1000)
    ttl = d.redis.ask("PTTL", "ratelimit:tenant:t")
    yield ("empty bucket, full in 60 s: the key ends in 30 to 61 s",
           30000 < ttl <= 61000, True)
    real.check(RULES, org="u")
    ttl = d.redis.ask("PTTL", "ratelimit:tenant:u")
    yield "one of 1000 used: in 2 s at most", ttl <= 2000 and ttl != -1, True
    real.stop()


@line("004-K05", "returns remaining or the wait")
def _(d):
    yield "allowed, remaining", numbers(d.spend("t", 400), "tenant")[1], 600
    yield "denied, wait in s", d.spend("t", 1000)["headers"]["Retry-After"], "24"


@line("004-K06", "a result has allowed and a wait")
def _(d):
    d.spend("t", 1000)
    verdict = d.spend("t", 500)
    yield ("allowed and wait in ms", (verdict["allowed"],
           verdict["retry_after_ms"]), (False, 30000))
    yield "over RESP, `SLUICE.CHECK`", d.resp(
        "SLUICE.CHECK", "POST", "/api/rules", "org", "t")[:4], [
            "allowed", 0, "status", 429]


@line("004-S01", "429")
def _(d):
    d.spend("t", 1000)
    yield "behind nginx", d.over_nginx("t").status, 429


@line("004-H01", "`Retry-After`")
def _(d):
    d.spend("t", 100, user="ann")
    d.spend("t", 900)
    yield "behind nginx", d.over_nginx("t", "ann")["Retry-After"], "1"
    yield "30 s to wait", d.spend("t", 500)["headers"]["Retry-After"], "30"


@line("004-H02", "`X-RateLimit-Reset` is now + wait")
def _(d):
    d.spend("t", 1000)
    yield ("at 12:00:00, behind nginx, 1 s to wait",
           d.over_nginx("t")["X-RateLimit-Reset"], "1772107201")
    yield "30 s to wait", d.spend("t", 500)["headers"][
        "X-RateLimit-Reset"], "1772107230"


@line("004-E03", "body of a 429")
def _(d):
    d.spend("t", 1000)
    answer = d.over_nginx("t")
    yield "behind nginx", answer.text, (
        '{"error":"Rate limit exceeded","message":"Tenant rate limit exceeded. '
        'Retry after 1 seconds","retryAfterSeconds":1}')
    yield "its type", answer["Content-Type"], "application/json"


@line("004-R09", "every call goes through the limiter first")
def _(d):
    before = d.proxy.seen()
    yield "passed behind nginx", d.over_nginx("t", "ann").text, (
        "POST /api/rules \n")
    d.spend("t", 99, user="ann")
    yield ("denied behind nginx", [d.over_nginx("t", "ann").status
                                   for _ in range(3)], [429, 429, 429])
    yield "requests that the application had", d.proxy.seen() - before, 1


@line("004-M01", "counter of violations by tenant")
def _(d):
    samples = ['fluo_ratelimit_violations_total{tenant_id="tenant-1",'
               'limit_type="user"}',
               'fluo_ratelimit_violations_total{tenant_id="tenant-1",'
               'limit_type="tenant"}',
               'fluo_ratelimit_violations_total{tenant_id="other",'
               'limit_type="user"}']
    d.rules(1, org="tenant-1")
    d.rules(1, org="unlisted")
    before = [d.metric(sample) for sample in samples]
    d.rules(103, org="tenant-1", user="ann")
    d.rules(901, org="tenant-1")
    d.rules(105, org="unlisted", user="eve")
    yield ("`fluo_ratelimit_violations_total` of tenant-1 by user and by "
           "tenant, of `other` by user",
           [d.metric(sample) - was for sample, was in zip(samples, before)],
           [3, 2, 5])


@line("004-M02", "gauge of the wait by tenant")
def _(d):
    sample = 'fluo_ratelimit_retry_after_seconds{tenant_id="tenant-1"}'
    d.rules(101, org="tenant-1", user="ann")
    yield f"`{sample}`", d.metric(sample), 1


@line("004-M03", "counter of allowed by tenant and user")
def _(d):
    samples = ['fluo_ratelimit_allowed_total{tenant_id="tenant-2",'
               f'user_id="{user}"}}' for user in ("authenticated",
                                                  "unauthenticated")]
    d.rules(7, org="tenant-2", user="ann")
    d.rules(4, org="tenant-2")
    yield ("`fluo_ratelimit_allowed_total` of tenant-2, authenticated and "
           "unauthenticated", [d.metric(sample) for sample in samples], [7, 4])


@line("004-R10", "metrics for dashboards and alerts")
def _(d):
    sample = ('sluice_decisions_total{limit="user",endpoint="api",'
              'status="429",result="deny"}')
    d.rules(101, org="r", user="ann")
    before = d.metric(sample)
    d.rules(7, org="r", user="ann")
    yield "seven denials in `sluice_decisions_total`", d.metric(
        sample) - before, 7
    yield names("ops/prometheus/rules.yaml", "sluice_decisions_total")
    yield names("ops/grafana/sluice.json", "sluice_decisions_total")


@line("004-R11", "rules and spans")
def _(d):
    d.spend("t", 999)
    seen = [d.check(path, org="t")["status"] for path in (
        "POST /api/spans", "POST /api/rules", "GET /api/rules/17")]
    yield "one left: spans, rules, a rule", seen, [200, 429, 429]


@line("004-R12", "success criteria")
def _(d):
    yield "tenant", d.rules(1001, org="t"), "1000 pass, then 429 by tenant"
    yield ("user", d.rules(101, org="u", user="ann"),
           "100 pass, then 429 by user")
    answer = d.over_nginx("t")
    yield ("behind nginx: status and Retry-After", (
        answer.status, answer["Retry-After"]), (429, "1"))
    yield "state in Redis", d.redis.keys(), [
        "ratelimit:tenant:t", "ratelimit:tenant:u", "ratelimit:user:u:ann"]
    yield names("scripts/lib/stages.sh", "least_coverage=94")


@line("004-R13", "error format and authentication are external")
def _(d):
    answer = d.over_nginx(None)
    yield "behind nginx without a tenant", (answer.status, answer.json), (
        401, {"error": "Unauthorized", "message": "The request does not name "
              'the "org" of the caller, which is required.'})


@line("004-R14", "Redis, local or hosted")
def _(d):
    for url in ("redis://localhost:6379", "rediss://user:pw@cache.example:6380",
                "redis+sentinel://s1.example:26379,s2.example:26379/main",
                "redis+cluster://c1.example:6379"):
        made = subprocess.run(
            [SLUICED, "-c", d.policy, "--store", url, "--check"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)
        yield f"`--store {url.partition('://')[0]}://` is accepted", (
            made.returncode == 0 or made.stdout), True
    yield names("test/shared/kinds.sh", "rediss://")


@line("004-T01", "100 calls pass")
def _(d):
    yield "a tenant", d.rules(100, org="t"), "100 pass"


@line("004-T02", "after 1000 the next is denied")
def _(d):
    verdicts = d.checks(1001, RULES, org="t")
    yield "1001 calls", told(verdicts), "1000 pass, then 429 by tenant"
    yield "wait in ms", verdicts[1000]["retry_after_ms"], 60


@line("004-T03", "after 6 s at least 90 of 100 pass")
def _(d):
    d.spend("t", 1000)
    d.ms(6000)
    yield "6 s after exhaustion", d.rules(101, org="t"), (
        "100 pass, then 429 by tenant")


@line("004-T04", "tenant A does not affect tenant B")
def _(d):
    yield "A", d.rules(1001, org="A"), "1000 pass, then 429 by tenant"
    yield "B", d.rules(1, org="B"), "1 pass"


@line("004-T05", "allowed without a user")
def _(d):
    yield "no user", d.rules(101, org="t"), "101 pass"


@line("004-T06", "denied, 30 s")
def _(d):
    d.spend("t", 1000)
    verdict = d.spend("t", 500)
    yield ("500 more: status, `by` and wait in s", (
        verdict["status"], verdict["by"], verdict["retry_after_ms"] // 1000),
           (429, "tenant", 30))


@line("004-T07", "the route: index 1000 is 429")
def _(d):
    d.spend("t", 999)
    passed, denied = d.over_nginx("t"), d.over_nginx("t")
    yield "999 and one behind nginx", passed.status, 200
    yield ("the next: status, Retry-After, `error`, `retryAfterSeconds`", (
        denied.status, denied["Retry-After"], denied.json["error"],
        denied.json["retryAfterSeconds"]), (429, "1", "Rate limit exceeded", 1))


@line("004-T08", "user A does not affect user B")
def _(d):
    d.spend("t", 100, user=MAIL)
    yield "behind nginx, A after 100", d.over_nginx("t", MAIL).status, 429
    yield "B", d.over_nginx("t", "user-b@example.com").status, 200


@line("004-B01", "fractions are lost")
def _(d):
    now, denied = 0, 0
    for number in range(600):
        d.ms(now)
        denied += not d.check(RULES, org="t", user="ann")["allowed"]
        now += 500 if number % 2 else 900
    yield ("600 of a user, 500 and 900 ms apart (the original denies from the "
           "200th on), denied", denied, 0)


@line("004-B02", "the tests pass only because of that")
def _(d):
    passed = 0
    for number in range(1017):
        d.ms(number)
        passed += d.check(RULES, org="t")["allowed"]
    yield "1017 calls, 1 ms apart, passed", passed, 1016


@line("004-B03", "a denied user has spent a tenant token")
def _(d):
    yield ("one user", d.rules(1000, org="t", user="eve"),
           "100 pass, then 429 by user")
    yield "left of the tenant", numbers(d.spend("t", 0), "tenant")[1], 900


@line("004-B04", "what a denial writes")
def _(d):
    d.spend("t", 1000)
    key = "ratelimit:tenant:t"
    d.ms(50)
    before = d.redis.ask("GET", key)
    yield "denied 50 ms after exhaustion, exact wait in ms", d.spend("t", 1)[
        "retry_after_ms"], 10
    yield "the value in Redis is the same", d.redis.ask("GET", key) == before, True
    d.ms(60)
    yield "10 ms later", d.rules(2, org="t"), "1 pass, then 429 by tenant"


@line("004-B05", "the clock of the application is used")
def _(d):
    pair = [Daemon("fluo.yaml", "--store", d.redis.url, virtual=False).start(),
            Daemon("fluo.yaml", "--store", d.redis.url, virtual=False,
                   **clock_by(60)).start()]
    yield "a daemon takes a tenant's", pair[0].check(
        RULES, org="t", cost=1000)["allowed"], True
    yield ("another, whose clock is a minute ahead, asks for 900",
           pair[1].check(RULES, org="t", cost=900)["status"], 429)
    for one in pair:
        one.stop()


@line("004-B06", "remaining is discarded")
def _(d):
    d.spend("t", 10)
    answer = d.over_nginx("t")
    yield ("behind nginx: X-RateLimit-Limit and -Remaining", (
        answer["X-RateLimit-Limit"], answer["X-RateLimit-Remaining"]),
           ("1000", "989"))


@line("004-B07", "Reset means the next token")
def _(d):
    d.spend("t", 1000)
    d.ms(60)
    head = d.spend("t", 1)["headers"]
    yield "empty at 12:00:00.060, next token at .120", head[
        "X-RateLimit-Reset"], "1772107201"


@line("004-B08", "a missing tenant is a tenant called null")
def _(d):
    yield "behind nginx without a tenant", d.over_nginx(None, "ann").status, 401
    yield "keys in Redis", d.redis.keys(), []
    d.rules(1, org="null")
    yield "a tenant that is called null has its own", d.redis.keys(), [
        "ratelimit:tenant:null"]


@line("004-B09", "a gauge that reads NaN")
def _(d):
    sample = 'sluice_retry_after_seconds_count{endpoint="api"}'
    d.rules(101, org="b", user="ann")
    before = d.metric(sample)
    d.rules(5, org="b", user="ann")
    text = d.admin.ask("GET", "/metrics").text
    yield "five waits in the histogram", d.metric(sample) - before, 5
    yield "NaN in the metrics", "NaN" in text, False


@line("004-B10", "unbounded labels, with e-mail addresses")
def _(d):
    d.rules(101, org="t", user=MAIL)
    yield ("the address in the metrics", "user-a@" in d.admin.ask(
        "GET", "/metrics").text, False)


@line("004-B11", "the script is sent with each call")
def _(d):
    d.redis.ask("CONFIG", "RESETSTAT")
    d.rules(500, org="t", user="ann")
    whole = d.redis.calls("eval") + d.redis.calls("script|load")
    yield "500 checks, fewer than ten commands with a whole script", whole < 10, True
    yield "EVALSHA is used", d.redis.calls("evalsha") >= 100, True


@line("004-B12", "two more seconds per request in an outage")
def _(_):
    hung = Redis("hung.sock")
    daemon = Daemon("fluo.yaml", "--store", hung.url, "--deadline",
                    "20ms").start()
    hung.process.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    verdicts = daemon.checks(101, RULES, org="t", user="ann")
    each = (time.monotonic() - begun) / 101
    hung.process.send_signal(signal.SIGCONT)
    yield "Redis hangs, `local`", told(verdicts), "100 pass, then 429 by user"
    yield "marked as degraded", all(v["degraded"] for v in verdicts), True
    yield "less than 0.2 s each", each < 0.2, True
    daemon.stop()
    hung.kill()


@line("004-B13", "about 2000 in the first minute")
def _(d):
    d.spend("t", 1000)
    d.ms(59999)
    yield "1000 at once, 59.999 s later", d.rules(1000, org="t"), (
        "999 pass, then 429 by tenant")


@line("004-B14", "deprecated command, casts")
def _(d):
    d.redis.ask("CONFIG", "RESETSTAT")
    d.rules(10, org="t", user="ann")
    yield "HMSET in Redis", d.redis.calls("hmset"), 0
    values = [d.redis.ask("GET", key) for key in d.redis.keys()]
    yield "decimals in the values", any("." in value for value in values), False


@line("004-X01", "all endpoints, one shown")
def _(d):
    d.spend("t", 1000)
    yield ("an empty tenant on four paths", [
        d.check(path, org="t")["status"] for path in (
            "POST /api/rules", "GET /api/spans", "DELETE /api/x/y",
            "GET /health")], [429, 429, 429, 200])


@line("004-X02", "unauthenticated calls are not limited", decision=IDENTITY)
def _(d):
    before = d.proxy.seen()
    yield ("behind nginx without a tenant", [d.over_nginx(None).status
                                             for _ in range(20)][-1], 401)
    yield "requests that the application had", d.proxy.seen() - before, 0


@line("004-X03", "damaged text: read as UTF-8")
def _(d):
    with open(d.policy, "rb") as file:
        shipped = file.read()
    text = shipped.replace(b"Rate limit exceeded", "a → b".encode())
    yield "policy with an arrow", d.admin.ask(
        "POST", "/v1/policy", text).status, 200
    yield "policy with half of it", d.admin.ask(
        "POST", "/v1/policy", text.replace("→".encode(), b"\xe2\x86")).status, 422
    d.must(d.admin.ask("POST", "/v1/policy", shipped))


if __name__ == "__main__":
    system.main()
