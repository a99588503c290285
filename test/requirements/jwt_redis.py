#!/usr/bin/python3
"""jwt-redis -- a bucket per user behind tokens: the preset on a Redis, behind
HAProxy, and limits in a table of PostgreSQL.

usage: with-postgres.sh jwt_redis.py SLUICED SLUICED-TEST SLUICE [--write]
"""

import os
import subprocess
import threading

import driver
from driver import names
from servers import (NOON, SLUICED, Daemon, Proxy, Redis, Web, clock_by,
                     numbers, signer, told, until)

ORDERS = "/orders"
CELLS = "2026-11-15-bucket-cells-store-amount-and-time"
FAILURE = "2026-11-15-store-failure-in-presets"
ENDS = "2026-11-16-keys-end-when-nothing-is-owed"
KEY = "sluice:prod:requests:user:ann"


class Fixture(Daemon):
    """Two daemons for all lines, and HAProxy before the first."""

    def __init__(self):
        self.redis = Redis()
        super().__init__("jwt-redis.yaml", "--store", self.redis.url,
                         "--forward-auth", "forwarded")
        self.sign = signer(self.folder, iss="https://issuer.example", aud="api")
        self.start()
        self.second = Daemon("jwt-redis.yaml", "--store",
                             self.redis.url).start()
        self.proxy = Proxy("haproxy", self, "Authorization")

    def fresh(self, now=NOON):
        super().fresh(now)
        self.second.fresh(now)

    def orders(self, count=1, **members):
        return self.burst(count, ORDERS, **members)

    def over_haproxy(self, token=None, **claims):
        if claims:
            token = self.sign(**claims)
        return self.proxy.ask(ORDERS, {"Authorization": "Bearer " + token}
                              if token else {})

    def ms(self, count):
        """Both clocks so many milliseconds after the start of a line."""
        for one in (self, self.second):
            one.at(f"2026-02-26T12:00:{count // 1000:02}.{count % 1000:03}Z")

    def policy_with(self, old, new):
        """Another policy; the old one by policy_with("", "")."""
        with open(self.policy, encoding="utf-8") as file:
            self.must(self.admin.ask("POST", "/v1/policy",
                                     file.read().replace(old, new)))


system = driver.System(
    "jwt-redis: one bucket per user, behind JWT authentication", "001-", Fixture)
line = system.line


@line("001-R01", "one bucket per user, the same on all instances")
def _(d):
    yield "ann at one daemon", d.orders(6, user="ann"), "6 pass"
    yield "ann at another on the same Redis", d.second.burst(
        6, ORDERS, user="ann"), "4 pass, then 429 by requests"
    yield "bob", d.orders(11, user="bob"), "10 pass, then 429 by requests"


@line("001-R02", "after JWT authentication, by the id in the token")
def _(d):
    answer = d.over_haproxy(sub="ann", plan="pro")
    yield ("token of ann behind HAProxy: status, limit and remaining", (
        answer.status, answer["X-RateLimit-Limit"],
        answer["X-RateLimit-Remaining"]), (200, "10", "99"))
    yield "key in Redis", d.redis.keys(), [KEY]
    other = signer(os.path.join(d.folder, "variants"))
    d.over_haproxy(other(sub="ann", iss="https://issuer.example", aud="api"))
    yield "token of another issuer: keys in Redis", d.redis.keys(), [
        "sluice:prod:requests:ip:127.0.0.1", KEY]


@line("001-R03", "Redis is the shared store")
def _(d):
    made = subprocess.run(
        [SLUICED, "-c", d.policy, "--show-settings"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    yield "store of the preset", [
        row.split()[1] for row in made.stdout.split("\n")
        if row.strip().startswith("store ")], ["redis://127.0.0.1:6379"]
    d.orders(1, user="ann")
    yield "key in a real Redis", d.redis.keys(), [KEY]


@line("001-K01", "capacity, tokens, time of refill, rate", differs=CELLS)
def _(d):
    part = d.check(ORDERS, user="ann", cost=3)["limits"][0]
    yield ("verdict: capacity, tokens and rate per second", (
        part["burst"], part["remaining"], part["limit"]), (10, 7, 1))
    yield ("in Redis: used amount and time, one value", d.redis.ask(
        "TYPE", KEY), "string")


@line("001-R04", "refill, cap, take one, or reject")
def _(d):
    d.orders(10, user="ann")
    d.ms(3000)
    yield "empty, 3 s later", d.orders(4, user="ann"), (
        "3 pass, then 429 by requests")
    d.ms(59000)
    yield "56 s later, not above the capacity", d.orders(11, user="ann"), (
        "10 pass, then 429 by requests")


@line("001-R05", "the first request leaves capacity - 1")
def _(d):
    yield "remaining", numbers(d.check(ORDERS, user="ann"))[1], 9


@line("001-R06", "one script for the whole step")
def _(d):
    d.redis.ask("CONFIG", "RESETSTAT")
    for _ in range(10):
        d.check(ORDERS, user="ann")
    yield "ten checks, about one EVALSHA each", (
        10 <= d.redis.calls("evalsha") < 15), True


@line("001-K02", "arguments and fields of the script", differs=CELLS)
def _(d):
    d.orders(1, user="ann")
    yield "type of the key in Redis", d.redis.ask("TYPE", KEY), "string"
    yield names("docs/guide/redis.md", "use the clock of Redis")


@line("001-K03", "returns 1 or 0")
def _(d):
    seen = [d.resp("SLUICE.CHECK", "GET", ORDERS, "user", "ann")[1]
            for _ in range(11)]
    yield "`SLUICE.CHECK` over RESP, the tenth and the eleventh", seen[9:], [1, 0]


@line("001-S01", "429")
def _(d):
    d.orders(10, user="ann")
    yield "behind HAProxy", d.over_haproxy(sub="ann").status, 429


@line("001-R07", "request, token, user, step, decision")
def _(d):
    before = d.proxy.seen()
    d.orders(9, user="ann")
    seen = [d.over_haproxy(sub="ann") for _ in range(3)]
    yield ("three requests of ann, one token left", [a.status for a in seen],
           [200, 429, 429])
    yield "body of the first, by the application", seen[0].text, "GET /orders \n"
    yield "requests that the application had", d.proxy.seen() - before, 1


@line("001-R08", "distributed, free of races, burst-friendly")
def _(d):
    passed = []

    def ask(where):
        web = Web(where)
        for _ in range(25):
            passed.append(web.ask("POST", "/v1/check", {
                "path": ORDERS, "user": "ann"}).json["allowed"])
    threads = [threading.Thread(target=ask, args=[where])
               for where in 2 * [d.where, d.second.where]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield ("100 requests over four connections to two daemons at once, passed",
           (len(passed), passed.count(True)), (100, 10))


@line("001-F01", "plans free, pro, admin")
def _(d):
    yield "free", d.orders(11, user="f", plan="Free"), (
        "10 pass, then 429 by requests")
    yield "pro", d.orders(101, user="p", plan="Pro"), (
        "100 pass, then 429 by requests")
    yield "admin", d.orders(501, user="a", plan="Admin"), (
        "500 pass, then 429 by requests")


@line("001-F02", "limits from a database")
def _(d):
    where = os.environ["SLUICE_TEST_POSTGRES"]
    subprocess.run(["psql", "-X", "-q", where, "-c", """
        CREATE TABLE accounts (id text, plan text, per_second int);
        INSERT INTO accounts VALUES ('ann', 'pro', NULL), ('bob', 'pro', 7)"""],
                   check=True)
    with open(d.policy, encoding="utf-8") as file:
        text = file.read()
    path = os.path.join(d.folder, "database.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("plan: [jwt.plan]", """plan: [subject.plan]
  subjects:
    query: >-
      SELECT plan, json_build_object('requests', per_second || '/s') AS overrides
      FROM accounts WHERE id = $1"""))
    made = Daemon("jwt-redis.yaml", "--store", "memory:", "--usage", where,
                  "-c", path)
    made.start()
    yield ("rate of ann (plan pro), of bob (7 in the row) and of eve (no row)",
           [numbers(made.check(ORDERS, user=user))[0]
            for user in ("ann", "bob", "eve")], [10, 7, 1])
    made.stop()


@line("001-F03", "behaviour without Redis", decision=FAILURE)
def _(_):
    away = Redis("away.sock")
    daemon = Daemon("jwt-redis.yaml", "--store", away.url).start()
    yield "with Redis", daemon.burst(4, ORDERS, user="ann"), "4 pass"
    away.kill()
    verdicts = daemon.checks(11, ORDERS, user="ann")
    yield "Redis killed, `local`", told(verdicts), "10 pass, then 429 by requests"
    yield "marked as degraded", verdicts[0]["degraded"], True
    away.start()
    until(daemon.ready)
    daemon.stop()
    away.kill()


@line("001-F04", "metrics")
def _(d):
    d.orders(11, user="ann")
    sample = ('sluice_decisions_total{limit="requests",endpoint="api",'
              'status="429",result="deny"}')
    before = d.metric(sample)
    d.orders(5, user="ann")
    yield "five denials in `sluice_decisions_total`", d.metric(sample) - before, 5
    yield "`sluice_store_up`", d.metric('sluice_store_up{store="redis"}'), 1


@line("001-F05", "sliding window instead")
def _(d):
    with open(d.policy, encoding="utf-8") as file:
        text = file.read()
    text = text.replace("kind: token-bucket", "kind: sliding-window").replace(
        "1/s burst 10", "10/10s").replace("10/s burst 100", "100/10s").replace(
        "50/s burst 500", "500/10s")
    d.must(d.admin.ask("POST", "/v1/policy", text))
    part = d.check(ORDERS, user="ann")["limits"][0]
    yield "kind", part["kind"], "sliding-window"
    yield "10/10s", d.orders(10, user="ann"), "9 pass, then 429 by requests"
    d.policy_with("", "")


@line("001-B01", "a fraction of a token admits")
def _(d):
    d.orders(10, user="ann")
    d.ms(50)
    yield "ten at once, one 50 ms later", d.orders(1, user="ann"), (
        "0 pass, then 429 by requests")
    yield "its wait in ms", d.check(ORDERS, user="ann")["retry_after_ms"], 950


@line("001-B02", "keys without a TTL live forever", decision=ENDS)
def _(d):
    real = Daemon("jwt-redis.yaml", "--store", d.redis.url,
                  virtual=False).start()
    real.check(ORDERS, user="ann", cost=100, plan="pro")
    ttl = d.redis.ask("PTTL", KEY)
    yield "empty bucket, full in 10 s: the key ends in 11 s at most", (
        ttl <= 11000 and ttl != -1), True
    real.stop()


@line("001-B03", "what a denial stores is not stated")
def _(d):
    d.orders(10, user="ann")
    before = d.redis.ask("GET", KEY)
    d.ms(500)
    yield "denied", d.orders(20, user="ann"), "0 pass, then 429 by requests"
    yield "the value in Redis is the same", d.redis.ask("GET", KEY) == before, True
    d.ms(1000)
    yield "a second after the burst", d.orders(2, user="ann"), (
        "1 pass, then 429 by requests")


@line("001-B04", "the clock of the caller is used")
def _(d):
    pair = [Daemon("jwt-redis.yaml", "--store", d.redis.url,
                   virtual=False).start(),
            Daemon("jwt-redis.yaml", "--store", d.redis.url, virtual=False,
                   **clock_by(-12)).start()]
    ann = {"user": "ann", "plan": "free"}
    yield ("two daemons, one 12 s behind, ten by turns, passed", sum(
        pair[i % 2].check(ORDERS, **ann)["allowed"] for i in range(10)), 10)
    admin = {"user": "a", "plan": "admin"}
    pair[0].check(ORDERS, cost=500, **admin)
    until(lambda: pair[1].check(ORDERS, **admin)["allowed"])
    yield "after the bucket was emptied, the slow one passes again", True, True
    for one in pair:
        one.stop()


@line("001-B05", "the unit of time is not stated")
def _(d):
    d.orders(10, user="ann")
    d.ms(1000)
    yield "1000 ms after ten at once", d.orders(10, user="ann"), (
        "1 pass, then 429 by requests")


@line("001-B06", "get and set race; capacity 0 admits")
def _(d):
    d.policy_with("free: 1/s burst 10", "free: none")
    yield "a plan without requests", d.check(ORDERS, user="new")["status"], 403
    d.policy_with("", "")
    with open(d.policy, encoding="utf-8") as file:
        text = file.read()
    yield "policy with `0/s`", d.admin.ask("POST", "/v1/policy", text.replace(
        "1/s burst 10", "0/s")).status, 422


@line("001-B07", "no cost, remaining, retry or reset")
def _(d):
    verdict = d.check(ORDERS, user="ann", cost=7)
    yield "cost 7: remaining and reset in ms", (
        numbers(verdict)[1], verdict["limits"][0]["reset_ms"]), (3, 7000)
    verdict = d.check(ORDERS, user="ann", cost=7)
    yield "again: status, remaining and wait in ms", (
        verdict["status"], numbers(verdict)[1], verdict["retry_after_ms"]), (
            429, 3, 4000)
    answer = d.over_haproxy(sub="ann")
    yield "behind HAProxy: RateLimit", answer["RateLimit"], '"requests";r=2;t=8'


@line("001-B08", "deprecated command, long decimals")
def _(d):
    d.redis.ask("CONFIG", "RESETSTAT")
    d.orders(3, user="ann")
    d.ms(333)
    d.orders(3, user="ann")
    yield "HMSET in Redis", d.redis.calls("hmset"), 0
    yield "decimals in the value", "." in d.redis.ask("GET", KEY), False


@line("001-B09", "unauthenticated traffic is not limited")
def _(d):
    yield ("behind HAProxy, twelve without a token, passed", [
        d.over_haproxy().status for _ in range(12)].count(200), 10)
    yield ("then with a token that is made up", d.over_haproxy(
        "a.b.c").status, 429)
    yield "key in Redis", d.redis.keys(), ["sluice:prod:requests:ip:127.0.0.1"]


@line("001-B10", "one Redis is a single point of failure", decision=FAILURE)
def _(_):
    away = Redis("away.sock")
    daemon = Daemon("jwt-redis.yaml", "--store", away.url).start()
    away.kill()
    yield "Redis killed", daemon.burst(11, ORDERS, user="ann"), (
        "10 pass, then 429 by requests")
    away.start()
    until(daemon.ready)
    daemon.stop()
    away.kill()
    yield names("test/shared/kinds.sh", "sentinel")


@line("001-Q01", "no key format")
def _(d):
    d.orders(1, user="ann")
    yield "key in Redis", d.redis.keys(), [KEY]


@line("001-X01", "other plan names")
def _(d):
    yield "plan of a token with Free, Pro, Admin, Business", [
        d.check(ORDERS, user="u", plan=plan, cost=0)["limits"][0]["plan"]
        for plan in ("Free", "Pro", "Admin", "Business")], [
            "free", "pro", "admin", "free"]


if __name__ == "__main__":
    system.main()
