#!/usr/bin/python3
"""vectors -- what follows from comparing the originals, and the vectors on
which they fail: the presets in memory, and two daemons on a Redis.

usage: vectors.py SLUICED SLUICED-TEST SLUICE [--write]
"""

import glob
import json
import os
import subprocess

import driver
from servers import (ROOT, SLUICE, Daemon, Redis, clock_by, numbers,
                     told)

PRESETS = ("unraveldocs", "jwt-redis", "saas-quotas", "jobseek", "fluo")
TEXTS = "2026-11-15-presets-keep-original-texts"
FAILURE = "2026-11-15-store-failure-in-presets"
SECRETS = {"TRANSCRIPTION_SECRET": "a secret for transcriptions",
           "STRIPE_WEBHOOK_SECRET": "a secret for stripe"}
DAY = {"ai-minute": 0, "ai-daily": 1}
POLICY = """
sluice: 1
identity: { user: [header.x-user-id] }
limits:
  slide: { kind: sliding-window, per: user, rate: 10/10s }
  open: { kind: fixed-window, per: user, rate: 5/hour, on_store_failure: allow }
  shut: { kind: fixed-window, per: user, rate: 5/hour, on_store_failure: deny }
  alone: { kind: fixed-window, per: user, rate: 5/hour, on_store_failure: local }
  rate: { kind: fixed-window, per: user, rate: 5/hour }
  quota: { kind: quota, per: user, rate: 5/day }
routes:
  - { match: /slide, limits: [slide], headers: [x-ratelimit] }
  - { match: /ietf, limits: [slide], headers: [ietf] }
  - { match: /github, limits: [slide], headers: [github] }
  - { match: /open, limits: [open] }
  - { match: /shut, limits: [shut] }
  - { match: /alone, limits: [alone] }
  - { match: /rate, limits: [rate] }
  - { match: /quota, limits: [quota] }
default: []
"""


class Fixture:
    """A daemon for each preset, when it is needed."""

    def __init__(self):
        self.made = {}

    def fresh(self):
        pass

    def __getitem__(self, preset):
        if preset not in self.made:
            name = preset if "/" in preset else preset + ".yaml"
            daemon = Daemon(name if preset != "own" else "fluo.yaml", "--store",
                            "memory:", **SECRETS).start()
            if preset == "own":
                daemon.must(daemon.admin.ask("POST", "/v1/policy", POLICY))
            self.made[preset] = daemon
        self.made[preset].fresh()
        return self.made[preset]


def after(daemon, ms):
    """Set the clock to so many milliseconds after noon."""
    daemon.at(f"2026-02-26T{12 + ms // 3600000:02}:{ms // 60000 % 60:02}:"
              f"{ms // 1000 % 60:02}.{ms % 1000:03}Z")


def steady(daemon, count, gaps, **members):
    """How many of requests with these gaps are denied."""
    now, denied = 0, 0
    for number in range(count):
        after(daemon, now)
        denied += not daemon.check("POST /api/rules", **members)["allowed"]
        now += gaps[number % len(gaps)]
    return denied


system = driver.System("Conclusions from all five, and regression vectors",
                       "7-|V", Fixture)
line = system.line


@line("7-01", "plans, mappings and bodies are data", decision=TEXTS)
def _(_):
    seen = [subprocess.run(
        [SLUICE, "check", os.path.join(ROOT, f"presets/{preset}.yaml")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
        env=dict(os.environ, **SECRETS)).returncode for preset in PRESETS]
    yield "`sluice check` of the five presets", seen, [0, 0, 0, 0, 0]


@line("7-02", "one header engine, a dialect per rule")
def _(f):
    d = f["own"]
    seen = [sorted(name for name in d.check(path, user="u")["headers"]
                   if "ratelimit" in name.lower() and "Expose" not in name)[0]
            for path in ("/slide", "/ietf", "/github")]
    yield "first header of `x-ratelimit`, `ietf` and `github`", seen, [
        "X-RateLimit-Limit", "RateLimit", "x-ratelimit-limit"]


@line("7-03", "the failure mode is a policy per rule", decision=FAILURE)
def _(_):
    redis = Redis()
    d = Daemon("fluo.yaml", "--store", redis.url).start()
    d.must(d.admin.ask("POST", "/v1/policy", POLICY))
    redis.kill()
    yield "Redis killed, allow, deny and local", [
        d.burst(6, path, user="u") for path in ("/open", "/shut", "/alone")], [
            "6 pass", "0 pass, then 503", "5 pass, then 429 by alone"]
    yield "by default, a rate and a quota", [
        d.burst(6, path, user="u") for path in ("/rate", "/quota")], [
            "6 pass", "0 pass, then 503"]
    d.stop("kill")


@line("7-04", "key templates, escaped")
def _(f):
    d = f["own"]
    key = "rate: 5/hour, key: \"{name}\" }"
    answer = d.admin.ask("POST", "/v1/policy", POLICY.replace(
        "rate: 5/hour }", key))
    yield "a key without the user", answer.status, 422
    d = f["fluo"]
    d.burst(1000, "POST /api/rules", org="a:b")
    yield "tenants `a:b` (used up), `a` and `a%3Ab`", [d.check(
        "POST /api/rules", org=org)["status"] for org in ("a:b", "a", "a%3Ab")], [
            429, 200, 200]


@line("7-05", "greedy buckets and hard ceilings")
def _(f):
    for preset, want in (("unraveldocs", "1 pass"), (
            "variants/unraveldocs-hard.yaml", "0 pass, then 429 by ai-daily")):
        d = f[preset]
        d.check("/api/v1/ai/x", user="u", plan="pro",
                cost={"ai-minute": 0, "ai-daily": 500})
        after(d, 172800)
        yield f"`{preset}`, 172.8 s after a day's", d.burst(
            1, "/api/v1/ai/x", user="u", plan="pro", cost=DAY), want


@line("7-06", "plan changes inside a window")
def _(f):
    d = f["jobseek"]
    ask = "POST /api/wallcrawler/session"
    yield "free", d.burst(11, ask, user="u", ip="192.0.2.1"), (
        "10 pass, then 429 by session")
    yield "premium in the same hour: limit and remaining", numbers(d.check(
        ask, user="u", ip="192.0.2.1", plan="premium")), (50, 39)


@line("7-07", "all tests on a virtual clock")
def _(_):
    flows = sorted(glob.glob(os.path.join(ROOT, "presets/*.flow")))
    flows.append(os.path.join(ROOT, "test/flow/vectors.flow"))
    made = subprocess.run([SLUICE, "test", *flows], check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env=dict(os.environ, **SECRETS))
    yield "`sluice test` of the flows of all presets and of the vectors", (
        made.returncode), 0


@line("V1", "100/min, gaps 500 and 900 ms: none denied")
def _(f):
    yield "of 2000", steady(f["fluo"], 2000, (500, 900), org="t", user="u"), 0


@line("V2", "1000/min, gaps 50 and 75 ms: none denied")
def _(f):
    yield "of 2500 (the original denies from the 2000th on)", steady(
        f["fluo"], 2500, (50, 75), org="t"), 0


@line("V3", "ten at once, one at 0.05 s: ten")
def _(f):
    d = f["jwt-redis"]
    yield "at once", d.burst(10, "/orders", user="u"), "10 pass"
    after(d, 50)
    yield "at 0.05 s", d.burst(1, "/orders", user="u"), (
        "0 pass, then 429 by requests")


@line("V4", "500 a day: 500 with a hard limit, 999 greedy")
def _(f):
    for preset, want in (("unraveldocs", 999), (
            "variants/unraveldocs-hard.yaml", 500)):
        d, passed = f[preset], 0
        d.fresh("2026-02-26T00:00:00Z")
        for tick in range(500):
            ms = tick * 172800
            d.at(f"2026-02-26T{ms // 3600000:02}:{ms // 60000 % 60:02}:"
                 f"{ms // 1000 % 60:02}.{ms % 1000:03}Z")
            passed += sum(v["allowed"] for v in d.checks(
                501 if tick == 0 else 2, "/api/v1/ai/x", user="u", plan="pro",
                cost=DAY))
        yield f"`{preset}`, a day of demand", passed, want


@line("V5", "sliding 10/10 s: 19 at worst")
def _(f):
    d = f["own"]
    after(d, 9900)
    passed = sum(v["allowed"] for v in d.checks(10, "/slide", user="u"))
    for second in range(10, 20):
        after(d, second * 1000)
        passed += sum(v["allowed"] for v in d.checks(10, "/slide", user="u"))
    yield "ten at 9.9 s, then ten a second to 19 s, passed", passed, 19


@line("V6", "fixed 5/h: ten across the hour")
def _(f):
    d = f["jobseek"]
    ask = {"path": "POST /api/wallcrawler/session", "ip": "192.0.2.1"}
    after(d, 3599000)
    first = d.burst(6, **ask)
    after(d, 3600000)
    yield "at 59:59 and at 00:00", (first, d.burst(6, **ask)), 2 * (
        "5 pass, then 429 by session",)


@line("V7", "two servers, one 12 s behind: none denied")
def _(_):
    redis = Redis()
    pair = [Daemon("jwt-redis.yaml", "--store", redis.url, virtual=False,
                   **env).start() for env in ({}, clock_by(-12))]
    verdicts = [pair[i % 2].check("/orders", user="u") for i in range(10)]
    yield "ten by turns", told(verdicts), "10 pass"
    for one in pair:
        one.stop()
    redis.kill()


@line("V8", "nine of ten, cost five: denied")
def _(f):
    d = f["jobseek"]
    ask = {"path": "POST /api/wallcrawler/session", "user": "u",
           "ip": "192.0.2.1"}
    seen = [d.check(cost=cost, **ask) for cost in (9, 5)]
    yield "status and remaining", [(v["status"], numbers(v)[1])
                                   for v in seen], [(200, 1), (429, 1)]


@line("V9", "ten, cost seven four times")
def _(f):
    seen = f["jwt-redis"].checks(4, "/orders", user="u", cost=7)
    yield "status", [v["status"] for v in seen], [200, 429, 429, 429]


@line("V10", "one user sends 1000: the tenant keeps 900")
def _(f):
    d = f["fluo"]
    yield "the user", d.burst(1000, "POST /api/rules", org="t", user="u"), (
        "100 pass, then 429 by user")
    yield "left of the tenant", numbers(d.check(
        "POST /api/rules", org="t", cost=0), "tenant")[1], 900


@line("V11", "1 ms apart: denied at call 1017")
def _(f):
    yield "of 1017", steady(f["fluo"], 1017, (1,), org="t"), 1


@line("V12", "a client waits, then raises an error")
def _(f):
    d = f["saas-quotas"]
    made = subprocess.run(
        ["node", os.path.join(ROOT, "test/requirements/client.mjs")], text=True,
        stdout=subprocess.PIPE, check=True,
        env=dict(os.environ, SLUICE_URL="http://" + d.where))
    seen = json.loads(made.stdout)["date"]
    yield "six 429 with a date 7 s from now: waits in ms", seen["waits"], [
        7000, 7000, 7000, 7000, 7000]
    yield "then", seen["result"], "error after 6"


if __name__ == "__main__":
    system.main()
