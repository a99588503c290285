#!/usr/bin/python3
"""saas-quotas -- limits per endpoint, quotas per plan: the preset on a Redis
with its usage in PostgreSQL, behind nginx, and the client in JavaScript.

usage: with-postgres.sh saas_quotas.py SLUICED SLUICED-TEST SLUICE [--write]
"""

import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
import time

import driver
from driver import names
from servers import (NOON, ROOT, Daemon, Proxy, Redis, Web, numbers, run, signer,
                     told, until)

ASK = "POST /api/assistant/query"
INIT, FINALIZE = "POST /api/recordings/init", "POST /api/recordings/finalize"
SHARES, INVITES = "POST /api/shares", "POST /api/invites"
TRANSCRIPTION, STRIPE = ("POST /api/webhooks/transcription",
                         "POST /api/webhooks/stripe")
OVERAGE = "2026-11-15-402-and-overage"
KINDS = "2026-11-15-limit-kinds-of-saas-quotas"
FAILURE = "2026-11-15-store-failure-in-presets"
ENDS = "2026-11-16-keys-end-when-nothing-is-owed"
USAGE = os.environ.get("SLUICE_TEST_POSTGRES")
SECRETS = {"TRANSCRIPTION_SECRET": "a secret for transcriptions",
           "STRIPE_WEBHOOK_SECRET": "a secret for stripe"}


class Fixture(Daemon):
    """One daemon for all lines, and nginx before it."""

    def __init__(self):
        self.redis = Redis()
        super().__init__("saas-quotas.yaml", "--store", self.redis.url,
                         "--usage", USAGE, **SECRETS)
        self.sign = signer(self.folder)
        self.start()
        self.proxy = Proxy("nginx", self, "Authorization", "X-Request-Id")
        self.tiny = Daemon("variants/saas-quotas-tiny.yaml", "--store",
                           "memory:").start()
        self.js = self.hooks = None

    def fresh(self, now=NOON):
        super().fresh(now)
        self.tiny.fresh(now)

    def job(self, name, **members):
        return self.check(job=name, **{"org": "acme", **members})

    def ask(self, count=1, **members):
        return self.burst(count, ASK, **{"user": "ann", "org": "acme", **members})

    def take(self, limit, key, plan, cost=1):
        return self.check(limit=limit, key=key, plan=plan, cost=cost)

    def over_nginx(self, path, claims=None, **head):
        head = {k.replace("_", "-"): v for k, v in head.items()}
        if claims:
            head["Authorization"] = "Bearer " + self.sign(**claims)
        return self.proxy.ask(path, head)

    def report(self, limit, amount, **members):
        return self.must(self.http.ask("POST", "/v1/usage", {
            "org": "acme", "limit": limit, "amount": amount, **members})).json

    def meters(self, org="acme"):
        made = self.must(self.http.ask("GET", f"/v1/usage/org/{org}")).json
        return {meter["name"]: meter for meter in made["meters"]}

    def client(self):
        """What the client in JavaScript has seen; it is run once."""
        if not self.js:
            made = subprocess.run(
                ["node", os.path.join(ROOT, "test/requirements/client.mjs")],
                stdout=subprocess.PIPE, text=True, check=True,
                env=dict(os.environ, SLUICE_URL="http://" + self.where))
            self.js = json.loads(made.stdout)
        return self.js

    def policy_with(self, *changes):
        """Another policy; the shipped one without changes."""
        with open(self.policy, encoding="utf-8") as file:
            text = file.read()
        for old, new in changes:
            text = text.replace(old, new)
        self.must(self.admin.ask("POST", "/v1/policy", text))


def sql(text):
    return subprocess.run(["psql", "-X", "-q", "-t", "-A", USAGE, "-c", text],
                          stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()


system = driver.System("saas-quotas: limits per endpoint, quotas per plan",
                       "002-", Fixture)
line = system.line


# ---- terms ----

@line("002-R01", "rate limits: short, 429")
def _(d):
    yield "assistant", d.ask(11), "10 pass, then 429 by assistant_query"


@line("002-R02", "quotas: long, 402 or 429")
def _(d):
    verdict = d.job("transcribe", cost={"transcription": 120})
    yield "120 minutes of free", verdict["status"], 200
    verdict = d.job("transcribe", cost={"transcription": 1})
    yield "one more: status and `by`", (verdict["status"], verdict["by"]), (
        402, "transcription")


@line("002-R03", "units")
def _(d):
    d.report("transcription", 1)
    units = sorted({m["unit"] for m in d.meters().values() if m["unit"]})
    yield "of the meters", units, ["GB", "chunks", "deliveries", "docs", "links",
                                   "minutes", "recordings", "requests", "tokens"]


@line("002-R04", "scopes: address, user, organisation, endpoint")
def _(d):
    seen = [d.check(path, user="ann", org="acme", ip="203.0.113.5")["limits"][0][
        "scope"] for path in (INIT, FINALIZE, "GET /api/public/x")]
    seen.append(d.job("deliver", headers={
        "x-webhook-destination": "https://a.example"})["limits"][0]["scope"])
    yield "init, finalize, public, deliver", seen, [
        "user", "org", "ip", "destination"]
    yield "endpoints have their own: after ten init", [
        d.burst(11, INIT, user="bob", org="o"), d.ask(1, user="bob", org="o")], [
            "10 pass, then 429 by recordings_init", "1 pass"]


@line("002-R05", "limits at the edge, in a replicated store")
def _(d):
    d.ask(1)
    yield "the rate is in a real Redis", [
        key for key in d.redis.keys() if key.startswith("rl:")], [
            "rl:prod:assistant_query:user:ann"]
    yield names("test/shared/kinds.sh", "sentinel")
    yield names("test/shared/kinds.sh", "cluster")


@line("002-R06", "limits on concurrent work")
def _(d):
    yield "docify, without waiting", [d.job(
        "docify", plan="team", wait="0s")["status"] for _ in range(3)], [
            200, 200, 429]


@line("002-R07", "quotas in a database")
def _(d):
    d.job("transcribe", cost={"transcription": 31})
    d.report("transcription", 11)
    used = ("SELECT sum(used) FROM sluice.usage_counters WHERE id = 'acme' "
            "AND limit_name = 'transcription'")
    until(lambda: sql(used) == "42")
    yield ("`usage_counters` in PostgreSQL, 31 minutes taken and 11 reported",
           sql(used), "42")


@line("002-R08", "fail open or closed per endpoint", decision=FAILURE)
def _(d):
    with open(d.policy, encoding="utf-8") as file:
        rows = [row.strip() for row in file]
    routes = sum(row.startswith(("- match:", "- job:")) for row in rows)
    modes = [row.split()[1] for row in rows
             if row.startswith("on_store_failure:")]
    yield "routes, and those with `on_store_failure: deny`", (
        routes, modes.count("deny")), (14, 14)


@line("002-K01", "keys `rl:<env>:<endpoint>:<scope>:<id>`")
def _(d):
    d.check(FINALIZE, org="c2b3", user="ann")
    d.check("GET /api/public/x", ip="203.0.113.5")
    yield "keys in Redis", [key for key in d.redis.keys()
                            if key.startswith("rl:")], [
        "rl:prod:public_api:ip:203.0.113.5", "rl:prod:recordings_finalize:org:c2b3"]


@line("002-R09", "by address without a signed-in user")
def _(d):
    yield "search without a token", d.burst(
        21, "GET /api/search", ip="203.0.113.5"), "20 pass, then 429 by search"
    yield "from another address", d.burst(
        1, "GET /api/search", ip="203.0.113.6"), "1 pass"


@line("002-R10", "which store for which data")
def _(d):
    d.ask(1)
    rates = [key for key in d.redis.keys() if key.startswith("rl:")]
    yield "rate in Redis", rates, ["rl:prod:assistant_query:user:ann"]
    used = ("SELECT sum(used) FROM sluice.usage_counters WHERE id = 'acme' "
            "AND limit_name = 'assistant_queries'")
    until(lambda: sql(used) == "1")
    yield "quota in PostgreSQL", sql(used), "1"


@line("002-R11", "routes and background jobs")
def _(d):
    yield "a route", d.check(INIT, user="ann", org="acme")["status"], 200
    yield "the jobs", [d.job(name)["status"] for name in (
        "transcribe", "docify", "embed", "deliver")], [200, 200, 200, 200]


# ---- headers, bodies, codes ----

def headers(d, name):
    """A header of the assistant behind nginx: allowed and denied."""
    claims = {"sub": "ann", "org_id": "acme", "plan": "team"}
    first = d.over_nginx(ASK, claims, X_Request_Id="req_abc123")
    d.check(ASK, user="ann", org="acme", plan="team",
            cost={"assistant_query": 9, "assistant_queries": 0,
                  "assistant_tokens": 0})
    return [first[name], d.over_nginx(ASK, claims,
                                      X_Request_Id="req_abc124")[name]]


@line("002-H01", "`X-RateLimit-Limit`")
def _(d):
    yield "behind nginx, allowed and denied", headers(d, "X-RateLimit-Limit"), [
        "10", "10"]


@line("002-H02", "`X-RateLimit-Remaining`")
def _(d):
    yield "behind nginx, allowed and denied", headers(
        d, "X-RateLimit-Remaining"), ["9", "0"]


@line("002-H03", "`X-RateLimit-Reset` in epoch seconds")
def _(d):
    yield "behind nginx at 12:00:00, allowed and denied", headers(
        d, "X-RateLimit-Reset"), ["1772107201", "1772107210"]


@line("002-H04", "`Retry-After` in seconds")
def _(d):
    yield "behind nginx, denied", headers(d, "Retry-After")[1], "1"
    d.must(d.admin.ask("PUT", "/v1/backlog/transcribe", {"depth": 1001}))
    yield "503 by a backlog", d.job("transcribe")["headers"]["Retry-After"], "30"


@line("002-H05", "`X-Org-Quota-Remaining`")
def _(d):
    yield "behind nginx, allowed and denied", headers(
        d, "X-Org-Quota-Remaining"), ["1999", "1999"]


@line("002-H06", "`X-Request-Id`")
def _(d):
    yield "behind nginx, allowed and denied", headers(d, "X-Request-Id"), [
        "req_abc123", "req_abc124"]


@line("002-E01", "body of a 429")
def _(d):
    claims = {"sub": "ann", "org_id": "acme"}
    answer = [d.over_nginx(ASK, claims, X_Request_Id="req_1")
              for _ in range(11)][10]
    yield "behind nginx", answer.json, {
        "code": "RATE_LIMITED", "message": "Too many requests. Try again later.",
        "retryAfterSec": 1, "requestId": "req_1"}


@line("002-E02", "body of a 402")
def _(d):
    d.report("transcription", 120)
    yield "transcription", d.job("transcribe", request_id="req_xyz789")["body"], {
        "code": "PLAN_LIMIT_EXCEEDED", "message": "You've reached your monthly "
        "transcription minutes. Upgrade to continue.", "requestId": "req_xyz789"}


@line("002-S01", "429")
def _(d):
    yield "behind nginx, the eleventh", [d.over_nginx(
        ASK, {"sub": "ann", "org_id": "acme"}).status for _ in range(11)][10], 429


@line("002-S02", "402", decision=OVERAGE)
def _(d):
    d.report("assistant_queries", 100)
    yield "free, behind nginx", d.over_nginx(
        ASK, {"sub": "ann", "org_id": "acme"}).status, 402
    yield "business, with overage", d.ask(1, plan="business"), "1 pass"


@line("002-S03", "409 while another request runs")
def _(d):
    head = {"x-recording-id": "r1"}
    first = d.check(FINALIZE, org="acme", headers=head)
    second = d.check(FINALIZE, org="acme", headers=head)
    yield "finalize of the same recording twice", [
        first["status"], second["status"]], [200, 409]
    yield "code", second["body"]["code"], "CONFLICT"


@line("002-S04", "403 without the capability")
def _(d):
    verdict = d.tiny.check(job="docify", org="stage")
    yield "plan without docify", (verdict["status"], verdict["body"]["code"]), (
        403, "FORBIDDEN")
    yield "invites as a member and as an admin", [d.tiny.check(
        INVITES, org="stage", role=role)["status"] for role in (
            "member", "admin")], [403, 200]


@line("002-S05", "503 with Retry-After")
def _(d):
    d.must(d.admin.ask("PUT", "/v1/backlog/transcribe", {"depth": 1001}))
    verdict = d.job("transcribe")
    yield "backlog of 1001: status, code and Retry-After", (
        verdict["status"], verdict["body"]["code"],
        verdict["headers"]["Retry-After"]), (503, "SERVICE_UNAVAILABLE", "30")


# ---- clients ----

@line("002-R12", "clients back off: 500 ms, doubling, 30 s")
def _(d):
    seen = d.client()
    yield "waits of `fetchWithBackoff` in ms", seen["plain"]["waits"], [
        500, 1000, 2000, 4000, 8000]
    yield "with Retry-After: 9", seen["told"]["waits"], [9000]
    yield "with X-RateLimit-Reset, 5 s", seen["reset"]["waits"], [5000]


@line("002-R13", "uploads resume, six retries per part")
def _(d):
    seen = d.client()["upload"]
    yield "a part that is always refused: tries", seen["tries"], 7
    yield "the state that remains: id and parts that arrived", (
        seen["id"], seen["done"]), ("u", 19)


@line("002-R14", "retry on 429 and 503 only, six times")
def _(d):
    seen = d.client()
    yield "attempts at 429, 503 then 200, 400, 500", [
        seen[name]["attempts"] for name in ("plain", "away", "wrong", "broken")], [
            6, 2, 1, 1]


@line("002-R15", "which algorithm where", decision=KINDS)
def _(d):
    head = {"x-webhook-destination": "https://a.example"}
    seen = [d.check(ASK, user="a", org="o")["limits"][0]["kind"],
            d.check("GET /api/search", user="a")["limits"][0]["kind"],
            d.job("deliver", headers=head)["limits"][0]["kind"],
            d.check(INIT, user="a")["limits"][0]["kind"],
            d.job("docify")["limits"][2]["kind"]]
    yield "assistant, search, deliveries, init, docify at once", seen, [
        "token-bucket", "token-bucket", "fixed-window", "sliding-window",
        "concurrency"]


# ---- plans ----

def plan_row(name, text, limit, numbers_, hard=False):
    def look(d):
        for plan, most in zip(("free", "team", "business"), numbers_):
            first = d.take(limit, plan, plan, most)
            again = d.take(limit, plan, plan)
            over = plan == "business" and not hard
            yield (f"{plan}, {most} and one more", (
                first["status"], again["status"]), (200, 200 if over else 402))
    line(name, text)(look)


plan_row("002-N01", "assistant queries a day: 100, 2 000, 10 000",
         "assistant_queries", (100, 2000, 10000))
plan_row("002-N02", "assistant tokens a day: 50 k, 1 M, 5 M",
         "assistant_tokens", (50000, 1000000, 5000000))
plan_row("002-N03", "recordings a day: 10, 200, 1 000", "recordings",
         (10, 200, 1000))
plan_row("002-N04", "transcribed minutes a month: 120, 1 200, 10 000",
         "transcription", (120, 1200, 10000))
plan_row("002-N05", "documents a day: 50, 500, 2 000", "docs", (50, 500, 2000))
plan_row("002-N06", "chunks a day: 5 000, 100 000, 500 000", "embeddings",
         (5000, 100000, 500000))
plan_row("002-N07", "active shares: 5, 50, 500", "shares_active", (5, 50, 500),
         hard=True)
plan_row("002-N08", "deliveries a day: 2 000, 50 000, 250 000", "deliveries",
         (2000, 50000, 250000))


@line("002-N09", "examples in prose: 20 a minute, 300 a day, 30 hours",
      decision=KINDS)
def _(d):
    yield "public endpoint, by address", d.burst(
        21, "GET /api/public/x", ip="203.0.113.5"), "20 pass, then 429 by public_api"


@line("002-R16", "overage by plan", decision=OVERAGE)
def _(d):
    d.take("transcription", "acme", "business", 10000)
    yield "business, 50 above its quota", d.take(
        "transcription", "acme", "business", 50)["status"], 200
    d.subject("org", "acme", plan="business")
    until(lambda: d.meters()["transcription"]["used"] == 10050)
    meter = d.meters()["transcription"]
    yield "meter: used and overage", (meter["used"], meter["overage"]), (10050, 50)


# ---- endpoints ----

@line("002-N10", "recordings/init 10/60 s, user")
def _(d):
    yield "ann", d.burst(11, INIT, user="ann", org="acme"), (
        "10 pass, then 429 by recordings_init")
    yield "bob of the same organisation", d.burst(
        1, INIT, user="bob", org="acme"), "1 pass"
    yield "declared size of 5 GB, and of one more byte", [d.check(
        INIT, user="cid", headers={"x-upload-size": size})["status"]
        for size in ("5000000000", "5000000001")], [200, 413]


@line("002-N11", "chunks: 8 concurrent")
def _(d):
    yield "`upload()`, twenty parts, at once", d.client()["upload"]["most"], 8
    d.policy_with(("default: []", "default: [upload_parts]"), (
        "routes:\n", "  upload_parts: { kind: concurrency, per: user, rate: 8 }\n"
        "routes:\n"))
    yield "with the setting of the comment", d.burst(
        9, "PUT /chunks/1", user="ann"), "8 pass, then 429 by upload_parts"
    d.policy_with()


@line("002-N12", "recordings/finalize 5/60 s, organisation")
def _(d):
    yield "acme", d.burst(6, FINALIZE, org="acme"), (
        "5 pass, then 429 by recordings_finalize")
    d.fresh()
    head = {"x-content-sha256": "9f86d0", "x-upload-size": "10"}
    seen = [d.check(FINALIZE, org="acme", headers=head) for _ in range(2)]
    seen.append(d.check(FINALIZE, org="acme",
                        headers=dict(head, **{"x-upload-size": "11"})))
    yield "the same sha256 twice, then with another size", [
        v["status"] for v in seen], [200, 200, 422]
    yield "taken", numbers(d.check(FINALIZE, org="acme", cost=0))[1], 4


@line("002-N13", "transcribe 30/5 m")
def _(d):
    yield "jobs", told([d.job("transcribe", cost={
        "transcription": 0}) for _ in range(31)]), "30 pass, then 429 by transcribe"
    d.must(d.admin.ask("PUT", "/v1/backlog/transcribe", {"depth": 1001}))
    yield "backlog too large", d.job("transcribe")["status"], 503


@line("002-N14", "docify 20/5 m, two concurrent")
def _(d):
    d.take("docify", "acme", "team", 18)
    seen = [d.job("docify", plan="team", wait="0s") for _ in range(3)]
    yield "18 before, then", told(seen), "2 pass, then 429 by docify"
    d.fresh()
    seen = [d.job("docify", plan="team", wait="0s") for _ in range(3)]
    yield "at once", told(seen), "2 pass, then 429 by docify_running"


@line("002-N15", "embed 40/5 m")
def _(d):
    d.take("embed", "acme", "team", 39)
    yield "39 before, then", told([d.job(
        "embed", plan="team", wait="0s") for _ in range(2)]), (
            "1 pass, then 429 by embed")


@line("002-N16", "assistant/query 10/10 s, user, token bucket")
def _(d):
    yield "ann", d.ask(11), "10 pass, then 429 by assistant_query"
    d.at("2026-02-26T12:00:01Z")
    yield "a second later", d.ask(2), "1 pass, then 429 by assistant_query"


@line("002-N17", "search 20/10 s, user")
def _(d):
    yield "ann", d.burst(21, "GET /api/search", user="ann"), (
        "20 pass, then 429 by search")
    d.fresh()
    claims = {"sub": "bob", "org_id": "acme"}
    seen = [d.over_nginx("/api/search?q=hot", claims, X_Request_Id="r")
            for _ in range(2)]
    yield "behind nginx, a hot query twice, from the cache", [
        a["X-Cache"] for a in seen], ["MISS", "HIT"]


def endpoint(name, text, path, most, by, members):
    def look(d):
        yield "at once", d.burst(most + 1, path, **members), (
            f"{most} pass, then 429 by {by}")
    line(name, text)(look)


endpoint("002-N18", "shares 10/10 m", SHARES, 10, "shares_create",
         {"org": "acme", "plan": "team"})
endpoint("002-N19", "shares removed 30/10 m", "DELETE /api/shares/17", 30,
         "shares_delete", {"org": "acme"})
endpoint("002-N20", "invites 10/24 h", INVITES, 10, "invites", {"org": "acme"})


def signed(body, secret=SECRETS["TRANSCRIPTION_SECRET"]):
    return {"x-hub-signature-256": "sha256=" + hmac.new(
        secret.encode(), body.encode(), hashlib.sha256).hexdigest()}


def stripe(body, now=1772107200, secret=SECRETS["STRIPE_WEBHOOK_SECRET"]):
    mac = hmac.new(secret.encode(), f"{now}.{body}".encode(),
                   hashlib.sha256).hexdigest()
    return {"stripe-signature": f"t={now},v1={mac}"}


@line("002-N21", "webhooks/transcription 60/60 s, by address of the provider")
def _(d):
    yield "signed", told([d.check(TRANSCRIPTION, ip="203.0.113.5", body=text,
                                  headers=signed(text))
                          for text in map(str, range(61))]), (
        "60 pass, then 429 by webhooks_transcription")
    d.fresh()
    for text in "abc":
        d.check(TRANSCRIPTION, ip="203.0.113.5", body=text,
                headers=dict(signed(text), **{"x-event-id": "e1"}))
    yield "an event three times: taken", 60 - numbers(d.check(
        TRANSCRIPTION, ip="203.0.113.5", body="d", headers=signed("d")))[1], 2
    yield "not signed", d.check(TRANSCRIPTION, ip="203.0.113.5",
                                body="{}")["status"], 401


@line("002-N22", "webhooks/stripe 60/60 s")
def _(d):
    body = '{"id":"evt_1"}'
    seen = [d.check(STRIPE, ip="203.0.113.5", body=body, headers=stripe(body))
            for _ in range(2)]
    yield "an event twice: taken", [numbers(v)[1] for v in seen], [59, 59]
    yield "the second is a repeat", seen[1]["headers"].get(
        "Idempotency-Replayed"), "true"
    yield "not signed", d.check(STRIPE, ip="203.0.113.5", body=body)["status"], 401


class Hooks(Daemon):
    """A daemon that sends webhooks to a destination on this machine, which
    answers 500."""

    def __init__(self):
        super().__init__("saas-quotas.yaml", "--store", "memory:", "--usage",
                         "sqlite:FOLDER/hooks.db", **SECRETS)
        self.port, self.hits = (os.path.join(self.folder, name)
                                for name in ("port", "hits"))
        run(sys.executable, os.path.join(ROOT, "test/daemon/destination.py"),
            self.port, self.hits, stdout=subprocess.DEVNULL)
        until(lambda: os.path.exists(self.port) and os.path.getsize(self.port))
        with open(self.port, encoding="utf-8") as port:
            self.url = f"http://127.0.0.1:{port.read().strip()}"
        with open(self.policy, "a", encoding="utf-8") as policy:
            policy.write("webhooks: { destination: 5/10s, quota: "
                         "deliveries, allow: [127.0.0.0/8], "
                         "insecure: true }\n")
        self.now = 1772107200
        self.start()

    def endpoint(self, org):
        return self.must(self.http.ask("POST", "/v1/webhooks/endpoints", {
            "org": org, "url": f"{self.url}/status/500?{org}",
            "events": ["*"]})).json["id"]

    def message(self, org):
        return self.must(self.http.ask("POST", "/v1/webhooks/messages", {
            "org": org, "type": "t", "payload": {}}))

    def tries(self, org):
        if not os.path.exists(self.hits):
            return 0
        with open(self.hits, encoding="utf-8") as hits:
            return sum(f"?{org}\"" in line for line in hits)

    def idle(self):
        return self.metric("sluice_webhook_sending") == 0

    def later(self, seconds):
        until(self.idle)
        self.now += seconds
        self.at(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now)))


def hooks(d):
    if not d.hooks:
        d.hooks = Hooks()
    return d.hooks


def six_attempts(h, org):
    """Sends a message and moves the clock behind each of its delays."""
    accepted = h.message(org)
    for count, delay in enumerate((0, 5, 30, 120, 600, 3600)):
        h.later(delay * 12 // 10 + (delay > 0))
        until(lambda: h.tries(org) > count)
    return accepted


@line("002-N23", "deliveries are queued, five retries")
def _(d):
    h = hooks(d)
    h.endpoint("retried")
    accepted = six_attempts(h, "retried")
    yield "a message is accepted", accepted.status, 202
    path = "/v1/webhooks/messages/" + accepted.json["id"]
    until(lambda: '"dead"' in h.http.ask("GET", path).text)
    h.later(86400)
    yield ("sent at once and after 5 s, 30 s, 2 min, 10 min and 1 h, then dead: "
           "attempts"), h.tries("retried"), 6


@line("002-N24", "a destination gets 5/10 s")
def _(d):
    head = {"x-webhook-destination": "https://a.example/hook"}
    other = {"x-webhook-destination": "https://b.example/hook"}
    yield "one destination", told([d.job("deliver", headers=head)
                                   for _ in range(6)]), (
        "5 pass, then 429 by webhook_spike")
    yield "another", d.job("deliver", headers=other)["status"], 200


@line("002-N25", "an endpoint is disabled after 20 failures")
def _(d):
    h = hooks(d)
    path = "/v1/webhooks/endpoints/" + h.endpoint("broken")
    for _ in range(20):
        h.message("broken")

    def disabled():
        tried = h.tries("broken")
        h.later(2)
        until(lambda: h.tries("broken") > tried and h.idle())
        return not h.must(h.http.ask("GET", path)).json["enabled"]

    until(disabled)
    yield "attempts until it is disabled", h.tries("broken"), 20
    yield "with the reason", h.http.ask("GET", path).json["reason"], (
        "20 attempts in a row failed")


# ---- implementation ----

@line("002-K02", "a call that returns ok, remaining, reset")
def _(d):
    seen = d.client()["rateLimit"]
    yield "`rateLimit()` ten times and once more: ok", [
        one[0] for one in seen].count(True), 10
    yield "the first: ok, remaining, resetAt in ms from now", seen[0][:3], [
        True, 9, 1000]


@line("002-R17", "INCR with TTL, or two weighted buckets")
def _(d):
    yield "fixed: webhook_spike", d.job("deliver", headers={
        "x-webhook-destination": "https://a.example"})["limits"][0][
            "kind"], "fixed-window"
    d.burst(10, INIT, user="ann")
    d.at("2026-02-26T12:01:05.999Z")
    yield "sliding: ten at 12:00:00, at 12:01:05.999", d.burst(
        1, INIT, user="ann"), "0 pass, then 429 by recordings_init"
    d.at("2026-02-26T12:01:06Z")
    yield "at 12:01:06", d.burst(2, INIT, user="ann"), (
        "1 pass, then 429 by recordings_init")


@line("002-K03", "keys of two buckets, TTL twice the window", differs=ENDS)
def _(d):
    real = Daemon("saas-quotas.yaml", "--store", d.redis.url, virtual=False,
                  **SECRETS).start()
    real.check(INIT, user="ttl")
    yield "one key for both buckets", [key for key in d.redis.keys()
                                       if key.endswith(":ttl")], [
        "rl:prod:recordings_init:user:ttl"]
    ttl = d.redis.ask("PTTL", "rl:prod:recordings_init:user:ttl")
    yield "a window of 60 s: it ends within 121 s", 0 < ttl <= 121000, True
    real.stop()


@line("002-K04", "semaphore `org:<id>:sem:<name>`")
def _(d):
    d.job("docify")
    yield "key in Redis", [key for key in d.redis.keys() if ":sem:" in key][:1], [
        "org:acme:sem:docify"]


@line("002-R18", "fallback: a fair in-process queue")
def _(d):
    holds = [d.job("docify", plan="team")["hold"] for _ in range(2)]
    waiting = []

    def third():
        waiting.append(Web(d.where).ask("POST", "/v1/check", {
            "job": "docify", "org": "acme", "plan": "team"}).json)
    thread = threading.Thread(target=third)
    thread.start()
    until(lambda: d.metric("sluice_waiting") == 1)
    yield "two run, a third job waits", d.metric("sluice_waiting"), 1
    d.must(d.http.ask("POST", f"/v1/holds/{holds[0]}/release", "{}"))
    thread.join()
    yield "one ends: the third", waiting[0]["status"], 200


@line("002-K05", "usage counters")
def _(d):
    counters = ("transcription", "assistant_tokens", "tokens_in", "storage_gb",
                "recordings", "embeddings")
    for amount, name in enumerate(counters, 1):
        d.report(name, amount)
    yield ("minutes, tokens out and in, GB, recordings, chunks: reported 1 to "
           "6, used", [d.meters()[name]["used"] for name in counters],
           [1, 2, 3, 4, 5, 6])


@line("002-R19", "aggregated by day and month")
def _(d):
    d.report("transcription", 10)
    d.at("2026-02-27T12:00:00Z")
    d.report("transcription", 5)
    meter = d.meters()["transcription"]
    yield "10 and 5 minutes on two days: days and months", (
        sorted(day["used"] for day in meter["days"]),
        [month["used"] for month in meter["months"]]), ([5, 10], [15])


@line("002-R20", "each request is compared with the plan")
def _(d):
    d.report("assistant_queries", 99)
    yield "99 of 100 used", d.ask(2), "1 pass, then 402 by assistant_queries"


@line("002-R21", "a friendly message with a countdown")
def _(d):
    yield "what it needs, of a denial behind nginx: X-RateLimit-Reset", headers(
        d, "X-RateLimit-Reset")[1], "1772107210"
    yield ("`<sluice-countdown>` of a 429 with Retry-After: 12 counts from",
           d.client()["page"]["seconds"], 12)


@line("002-R22", "the page queues finalize attempts")
def _(d):
    yield "`fetchWithBackoff` repeats a POST with one key", (
        d.client()["post"]["result"], d.client()["post"]["keys"]), (201, 1)
    yield ("`<sluice-queue>`, after a 429 with Retry-After: 12: attempts, keys, "
           "ms", d.client()["page"]["queue"], [2, 1, 12000])


@line("002-R23", "the page disables sending at 0")
def _(d):
    yield "X-RateLimit-Remaining of the tenth query", d.checks(
        10, ASK, user="ann", org="acme")[9]["headers"][
            "X-RateLimit-Remaining"], "0"
    page = d.client()["page"]
    yield "`<sluice-send-guard>` at 0, and after the reset: blocked", (
        page["blocked"], page["later"]), (True, False)


@line("002-R24", "meters, and an upgrade prompt above 80 %")
def _(d):
    d.report("transcription", 97)
    meter = d.meters()["transcription"]
    yield "97 of 120 minutes: used, limit, percent", (
        meter["used"], meter["limit"], meter["share"]), (97, 120, 80)


# ---- tests and operation ----

@line("002-T01", "tests of sliding windows and headers")
def _(d):
    d.burst(10, INIT, user="ann")
    d.at("2026-02-26T12:01:30Z")
    verdicts = d.checks(6, INIT, user="ann")
    yield "10/60s, ten in one window, half into the next", told(verdicts), (
        "5 pass, then 429 by recordings_init")
    yield "headers of the last: Limit, Remaining, Retry-After", [
        verdicts[5]["headers"][name] for name in (
            "X-RateLimit-Limit", "X-RateLimit-Remaining", "Retry-After")], [
                "10", "0", "6"]


@line("002-T02", "a burst of 100: about 10 pass")
def _(d):
    yield "at once", d.ask(100, plan="team"), (
        "10 pass, then 429 by assistant_query")
    passed = 0
    d.fresh()
    for tick in range(100):
        d.at(f"2026-02-26T12:00:{tick // 10:02}.{tick % 10}Z")
        passed += d.check(ASK, user="b", org="acme", plan="team")["allowed"]
    yield "over ten seconds", passed, 19


@line("002-T03", "a tiny plan: 402 after the cap")
def _(d):
    yield "two minutes", d.tiny.burst(3, job="transcribe", org="stage"), (
        "2 pass, then 402 by transcription")


@line("002-T04", "store unavailable: 503 with Retry-After")
def _(_):
    away = Redis("away.sock")
    daemon = Daemon("saas-quotas.yaml", "--store", away.url, **SECRETS).start()
    away.kill()
    seen = [daemon.check(path, user="a", org="o", ip="192.0.2.1")
            for path in (INIT, FINALIZE, ASK, "GET /api/search", SHARES,
                         "DELETE /api/shares/1", INVITES, "GET /api/public/x")]
    seen += [daemon.check(job=name, org="o") for name in (
        "transcribe", "docify", "embed", "deliver")]
    yield "Redis killed, eight paths and four jobs", {
        (v["status"], "Retry-After" in v["headers"]) for v in seen} == {
            (503, True)}, True
    daemon.stop("kill")


@line("002-M01", "metrics of denials")
def _(d):
    d.ask(12)
    d.report("transcription", 120)
    d.job("transcribe")
    text = d.admin.ask("GET", "/metrics").text
    yield "in the metrics", [name in text for name in (
        'sluice_decisions_total{limit="assistant_query",'
        'endpoint="assistant_query",status="429",result="deny"}',
        'sluice_retry_after_seconds_sum{endpoint="assistant_query"}',
        "sluice_waiting", 'sluice_quota_denials_total{limit="transcription"}',
        "sluice_upstream_total")], [True, True, True, True, True]


@line("002-M02", "dashboards")
def _(d):
    d.ask(30)
    status, out = d.cli("top")
    yield "`sluice top` has ann", (status, "ann" in out), (0, True)
    yield names("ops/grafana/sluice.json", "endpoint")
    yield names("ops/grafana/sluice.json", "sluice_consumed_units_total")


@line("002-M03", "alerts")
def _(_):
    yield names("ops/prometheus/rules.yaml", 'status="429"')
    yield names("ops/prometheus/rules.yaml", "sluice_quota_denials_total")


@line("002-R25", "raise a limit for one organisation")
def _(d):
    yield "`sluice subject set org acme assistant_query=20/10s until=1h`", d.cli(
        "subject", "set", "org", "acme", "assistant_query=20/10s",
        "until=1h")[0], 0
    yield "a member", d.ask(21), "20 pass, then 429 by assistant_query"
    d.at("2026-02-26T13:00:01Z")
    yield "after an hour", d.ask(11), "10 pass, then 429 by assistant_query"


@line("002-R26", "reduce the traffic of one organisation")
def _(d):
    d.subject("org", "hot", plan="team", overrides={
        "assistant_query": "2/10s", "assistant_queries": "5000/day"})
    yield "a member", d.ask(3, org="hot"), "2 pass, then 429 by assistant_query"
    yield "left of the day", d.check(ASK, user="x", org="hot")["headers"][
        "X-Org-Quota-Remaining"], "4997"


@line("002-R27", "kill switch, 503 with a banner")
def _(_):
    off = Daemon("saas-quotas.yaml", "--store", "memory:",
                 FEATURE_ASSISTANT="false", **SECRETS).start()
    verdict = off.check(ASK, user="ann", org="acme")
    yield "`FEATURE_ASSISTANT=false`: status and message", (
        verdict["status"], verdict["body"]["message"]), (
            503, "The assistant is paused for maintenance. Please try again in "
            "a minute.")
    yield "search", off.check("GET /api/search", user="ann")["status"], 200
    off.stop()


@line("002-H07", "example of a 200")
def _(d):
    d.fresh("2024-11-05T16:00:02Z")
    d.take("assistant_queries", "acme", "team", 510)
    verdict = [d.check(ASK, user="ann", org="acme", plan="team",
                       request_id="req_abc123") for _ in range(3)][2]
    yield "Limit, Remaining, Reset, quota, id", [verdict["headers"][name]
        for name in ("X-RateLimit-Limit", "X-RateLimit-Remaining",
                     "X-RateLimit-Reset", "X-Org-Quota-Remaining",
                     "X-Request-Id")], [
            "10", "7", "1730822405", "1487", "req_abc123"]


@line("002-H08", "example of a 429")
def _(_):
    window = Daemon("variants/saas-quotas-window.yaml", "--store",
                    "memory:").start("2024-11-05T16:00:01Z")
    verdict = window.checks(11, ASK, user="ann")[10]
    yield "aligned windows: Retry-After, Limit, Remaining, Reset, type", [
        verdict["headers"][name] for name in (
            "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining",
            "X-RateLimit-Reset", "Content-Type")], [
                "9", "10", "0", "1730822410", "application/json"]
    yield "retryAfterSec", verdict["body"]["retryAfterSec"], 9
    window.stop()


@line("002-E03", "example of a 402")
def _(d):
    d.report("transcription", 120)
    verdict = d.job("transcribe", request_id="req_xyz789")
    yield "type and requestId", (verdict["headers"]["Content-Type"],
                                 verdict["body"]["requestId"]), (
        "application/json", "req_xyz789")


# ---- improvements ----

@line("002-F01", "limits by cost")
def _(d):
    d.policy_with(("  search:\n    kind: token-bucket\n    per: user\n"
                   "    rate: 20/10s ", "  search:\n    kind: token-bucket\n"
                   "    per: user\n    rate: 1000/min "),
                  ("    endpoint: search\n",
                   "    endpoint: search\n    cost: header.x-tokens\n"))
    seen = [d.check("GET /api/search", user="ann",
                    headers={"x-tokens": "400"}) for _ in range(3)]
    yield "1000 tokens a minute, three requests of 400", told(seen), (
        "2 pass, then 429 by search")
    d.policy_with()


@line("002-F02", "shaping by region",
      outside="which region serves a request is the application's")
def _(d):
    d.policy_with(("identity:\n", "identity:\n  region: [header.x-region]\n"),
                  ("    kind: token-bucket\n    per: user\n    rate: 20/10s ",
                   "    kind: token-bucket\n    per: [region, user]\n"
                   "    missing: skip\n    rate: 20/10s "))
    seen = [told([d.check("GET /api/search", user="ann", headers={
        "x-region": region}) for _ in range(21)]) for region in ("eu", "us")]
    yield "a limit per region, by a header", seen, 2 * [
        "20 pass, then 429 by search"]
    d.policy_with()


@line("002-F03", "credits for spikes")
def _(d):
    d.policy_with(("  invites:\n    kind: sliding-window\n",
                   "  spikes: { kind: quota, per: org, rate: 1/month }\n"
                   "  invites:\n    kind: sliding-window\n"
                   "    credits: spikes\n"))
    d.admin.ask("POST", "/v1/credits/org/acme", {
        "limit": "spikes", "amount": 4})
    yield "ten invites, one of the month, four granted", d.burst(
        16, INVITES, org="acme"), "15 pass, then 429 by invites"
    d.policy_with()


@line("002-F04", "adaptive limits",
      outside="what good behaviour is, the application knows")
def _(d):
    d.subject("user", "ann", overrides={"assistant_query": "15/10s"}, until="1h")
    yield "it sets a rate of the user's own, with an end", d.ask(16), (
        "15 pass, then 429 by assistant_query")


@line("002-R28", "refers to a missing page")
def _(_):
    yield names("docs/guide/usage.md", "# Usage: quotas, meters and plans")


# ---- contradictions and errors of the text ----

def at_once(d, body, each):
    """Four connections ask at once: how many passed."""
    passed = []

    def ask():
        web = Web(d.where)
        for _ in range(each):
            passed.append(web.ask("POST", "/v1/check", body).json["allowed"])
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(passed), passed.count(True)


@line("002-B01", "read, decide, count: a race")
def _(d):
    yield "four connections at once, 10/24 h: asked and passed", at_once(
        d, {"method": "POST", "path": "/api/invites", "org": "acme"}, 10), (40, 10)


@line("002-B02", "count, then TTL: a crash in between")
def _(d):
    real = Daemon("saas-quotas.yaml", "--store", d.redis.url, virtual=False,
                  **SECRETS).start()
    real.check(INVITES, org="acme")
    real.check("GET /api/search", user="ann")
    yield "keys without an end", [key for key in d.redis.keys()
                                  if d.redis.ask("PTTL", key) == -1], []
    real.stop()


@line("002-B03", "compared before the cost is added")
def _(d):
    seen = [d.check(INVITES, org="acme", cost=cost)["status"]
            for cost in (9, 2, 1)]
    yield "10 in a window, costs 9, 2, 1", seen, [200, 429, 200]


@line("002-B04", "whole seconds move the weight in steps")
def _(d):
    d.burst(10, INIT, user="ann")
    d.at("2026-02-26T12:01:00Z")
    yield "ten at 12:00:00, at 12:01:00 wait in ms", d.check(
        INIT, user="ann")["retry_after_ms"], 6000
    d.at("2026-02-26T12:01:05.999999Z")
    yield "a microsecond too early", d.check(INIT, user="ann")["status"], 429
    d.at("2026-02-26T12:01:06Z")
    yield "then", d.check(INIT, user="ann")["status"], 200


@line("002-B05", "19 in an interval of 10")
def _(d):
    d.at("2026-02-26T12:00:59Z")
    passed = int(d.burst(11, INIT, user="ann").split()[0])
    for second in range(59):
        d.at(f"2026-02-26T12:01:{second:02}Z")
        passed += d.check(INIT, user="ann")["allowed"]
    yield "10/60s, ten at 12:00:59, then one a second to 12:01:58", passed, 19
    yield names("docs/reference/limits.md", "Less than twice the limit")


@line("002-B06", "the window is not in the key")
def _(d):
    d.burst(10, INIT, user="ann")
    d.policy_with(("rate: 10/60s ", "rate: 10/10s "))
    yield "10/60s used up, then 10/10s by a reload", d.burst(
        11, INIT, user="ann"), "10 pass, then 429 by recordings_init"
    d.policy_with()


@line("002-B07", "separators in names")
def _(d):
    d.burst(10, INVITES, org="a:b")
    yield "ten of `a:b`, then `a` and `a%3Ab`", [
        d.check(INVITES, org=org)["status"] for org in ("a:b", "a", "a%3Ab")], [
            429, 200, 200]


@line("002-B08", "that call returns no retry and no limit")
def _(d):
    yield "`rateLimit()`, denied: limit and retryAfterMs", d.client()[
        "rateLimit"][10][3:], [10, 1000]


@line("002-B09", "a cached snapshot overspends")
def _(d):
    first = d.check(ASK, user="ann", org="acme", hold="1m",
                    cost={"assistant_tokens": 40000})
    second = d.check(ASK, user="bob", org="acme",
                     cost={"assistant_tokens": 20000})
    yield "40k of 50k reserved, then 20k", (
        first["status"], second["status"], second["by"]), (
            200, 402, "assistant_tokens")
    d.must(d.http.ask("POST", f"/v1/holds/{first['hold']}/settle", {
        "cost": {"assistant_tokens": 1200}}))
    yield "settled with 1200, then 20k", d.check(
        ASK, user="bob", org="acme", cost={"assistant_tokens": 20000})[
            "status"], 200


@line("002-B10", "a crash leaks permits")
def _(d):
    for _ in range(2):
        d.job("docify", plan="team")
    yield "two workers died", d.job("docify", plan="team", wait="0s")["status"], 429
    d.at("2026-02-26T12:05:01Z")
    yield "five minutes later", d.job("docify", plan="team", wait="0s")[
        "status"], 200


@line("002-B11", "the last failure is silent")
def _(d):
    seen = d.client()["plain"]
    yield "six refusals", seen["result"], "error after 6"
    yield "waits: none after the last", len(seen["waits"]), 5


@line("002-B12", "a date in Retry-After is not a number")
def _(d):
    yield "a date 7 s from now: first wait in ms", d.client()["date"][
        "waits"][0], 7000


@line("002-B13", "jitter doubles the wait; no jitter with Retry-After")
def _(d):
    seen = d.client()
    yield "longest waits with jitter in ms", seen["jitter"]["waits"], [
        1000, 2000, 4000, 8000, 16000]
    yield "with Retry-After: 9 and half of the jitter", seen["toldJitter"][
        "waits"], [9250]


@line("002-B14", "POST is retried without an idempotency key")
def _(d):
    seen = d.client()["post"]
    yield "three attempts of a POST: different keys", (
        seen["attempts"], seen["keys"], seen["key"]), (3, 1, "string")


@line("002-B15", "no exact counts between regions")
def _(d):
    other = Daemon("saas-quotas.yaml", "--store", d.redis.url, "--usage", USAGE,
                   **SECRETS).start()
    yield "two daemons on one Redis", (
        d.burst(6, INVITES, org="acme"), other.burst(6, INVITES, org="acme")), (
            "6 pass", "4 pass, then 429 by invites")
    other.stop()


@line("002-X01", '"switch 402 to 429 and continue"', decision=OVERAGE)
def _(d):
    d.take("docs", "b", "business", 2000)
    yield "business above its quota", d.take("docs", "b", "business")["status"], 200
    d.take("docs", "t", "team", 500)
    yield "team", d.take("docs", "t", "team")["status"], 402


@line("002-X02", "PAYMENT_REQUIRED or PLAN_LIMIT_EXCEEDED", decision=OVERAGE)
def _(d):
    d.report("assistant_queries", 100)
    verdict = d.check(ASK, user="ann", org="acme")
    yield "status and code", (verdict["status"], verdict["body"]["code"]), (
        402, "PLAN_LIMIT_EXCEEDED")


@line("002-X03", "the table of fail-open and fail-closed endpoints is missing",
      decision=FAILURE)
def _(_):
    away = Redis("away.sock")
    daemon = Daemon("saas-quotas.yaml", "--store", away.url, **SECRETS).start()
    away.kill()
    yield "Redis killed, assistant and search", [daemon.check(
        path, user="a", org="o")["status"] for path in (
            ASK, "GET /api/search")], [503, 503]
    daemon.stop("kill")


@line("002-X04", "headers on every endpoint, but not in the examples")
def _(d):
    d.report("assistant_queries", 100)
    answer = d.over_nginx(ASK, {"sub": "ann", "org_id": "acme"},
                          X_Request_Id="req_1")
    yield "402 behind nginx: Limit, Remaining, quota, id", [answer[name]
        for name in ("X-RateLimit-Limit", "X-RateLimit-Remaining",
                     "X-Org-Quota-Remaining", "X-Request-Id")], [
            "100", "0", "0", "req_1"]


@line("002-X05", "the examples follow different windows", decision=KINDS)
def _(d):
    d.fresh("2024-11-05T16:00:02Z")
    yield "a bucket at 16:00:02, three taken: Reset", d.checks(
        3, ASK, user="ann", org="acme")[2]["headers"][
            "X-RateLimit-Reset"], "1730822405"
    yield names("presets/variants/saas-quotas-window.yaml", "fixed-window")


@line("002-X06", "counters without limits, limits without counters")
def _(d):
    d.report("tokens_in", 123456)
    d.report("storage_gb", 7)
    d.take("shares_active", "acme", "free", 3)
    until(lambda: d.meters()["shares_active"]["used"] == 3)
    yield "tokens_in, storage_gb and shares_active of the meters", [
        d.meters()[name]["used"] for name in (
            "tokens_in", "storage_gb", "shares_active")], [123456, 7, 3]


@line("002-X07", "quotas in prose match no plan", decision=KINDS)
def _(d):
    yield "queries a day of free, team, business", [numbers(
        d.take("assistant_queries", plan, plan, 0), "assistant_queries")[0]
        for plan in ("free", "team", "business")], [100, 2000, 10000]


@line("002-X08", "the semaphore is in-process")
def _(d):
    other = Daemon("saas-quotas.yaml", "--store", d.redis.url, "--usage", USAGE,
                   **SECRETS).start()
    seen = [one.check(job="docify", org="acme", plan="team", wait="0s")["status"]
            for one in (d, other, d)]
    yield "two permits, taken at two daemons", seen, [200, 200, 429]
    other.stop()


@line("002-Q01", "where do days and months begin?", decision=KINDS)
def _(d):
    d.fresh("2026-03-31T23:59:59.900Z")
    d.report("transcription", 120)
    yield "at the end of March: wait in ms", d.job("transcribe")[
        "retry_after_ms"], 100
    d.at("2026-04-01T00:00:00Z")
    yield "on 1 April, 00:00 UTC", d.job("transcribe")["status"], 200


@line("002-Q02", "threshold and retry time of the backlog")
def _(d):
    seen = []
    for depth in (1000, 1001):
        d.must(d.admin.ask("PUT", "/v1/backlog/transcribe", {"depth": depth}))
        verdict = d.job("transcribe")
        seen.append((verdict["status"], verdict["headers"].get("Retry-After", "-")))
    yield "1000 and 1001 jobs: status and Retry-After", seen, [
        (200, "-"), (503, "30")]


@line("002-Q03", "does a denied request count?")
def _(d):
    d.ask(100, plan="team")
    yield "ten of a hundred passed, left of 2000 queries", numbers(d.take(
        "assistant_queries", "acme", "team", 0), "assistant_queries")[1], 1990


@line("002-Q04", "failures per attempt or per delivery?")
def _(d):
    h = hooks(d)
    path = "/v1/webhooks/endpoints/" + h.endpoint("counted")
    six_attempts(h, "counted")
    until(lambda: h.http.ask("GET", path).json["failures"] > 5)
    yield "one delivery, six attempts: failures of the endpoint", h.http.ask(
        "GET", path).json["failures"], 6


@line("002-Q05", "are rate and quota taken atomically?")
def _(d):
    d.report("assistant_queries", 100)
    yield "the quota denies", d.ask(5), "0 pass, then 402 by assistant_queries"
    yield "left of the rate", numbers(d.check(
        limit="assistant_query", key="ann", cost=0), "assistant_query")[1], 10


@line("002-Q06", "user, organisation, override, plan: which wins?")
def _(d):
    d.subject("org", "acme", overrides={"assistant_query": "20/10s"})
    d.subject("user", "ann", overrides={"assistant_query": "25/10s"})
    yield "limit of ann, of bob in acme, of a user of another organisation", [
        numbers(d.check(ASK, user=user, org=org))[0] for user, org in (
            ("ann", "acme"), ("bob", "acme"), ("cid", "beta"))], [25, 20, 10]


if __name__ == "__main__":
    system.main()
