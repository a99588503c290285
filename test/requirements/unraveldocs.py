#!/usr/bin/python3
"""unraveldocs -- tiered AI limits: the preset in memory with its registry,
behind Caddy.

usage: unraveldocs.py SLUICED SLUICED-TEST SLUICE [--write]
"""

import driver
from driver import names
from servers import Daemon, Proxy, Redis, numbers, signer

AI = "/api/v1/ai/extract"
MINUTE, DAILY = "ai-minute", "ai-daily"
EVERY_PLAN = "2026-11-15-every-plan-needs-a-rate"
TEXTS = "2026-11-15-presets-keep-original-texts"
DENIED = "2026-11-15-headers-of-denied-requests"
NO_LIMIT = "2026-11-15-no-headers-without-limits"
UNKNOWN = "2026-11-16-unknown-subjects-have-the-default-plan"
IDENTITY = "2026-11-15-missing-identity"


class Fixture(Daemon):
    """One daemon for all lines, and Caddy before it."""

    def __init__(self):
        super().__init__("unraveldocs.yaml", "--forward-auth", "forwarded",
                         "--store", "memory:", "--usage", "sqlite:FOLDER/db")
        self.sign = signer(self.folder)
        self.start()
        self.proxy = Proxy("caddy", self)
        self.others = {}

    def other(self, preset):
        """A daemon with a variant."""
        if preset not in self.others:
            self.others[preset] = Daemon(
                preset, "--store", "memory:").start()
        self.others[preset].fresh()
        return self.others[preset]

    def bearer(self, **claims):
        return {"Authorization": "Bearer " + self.sign(**claims)}

    def ai(self, count=1, **members):
        return self.burst(count, AI, **members)

    def spend(self, limit, cost, user, plan):
        """Take from one of the two buckets."""
        return self.check(AI, user=user, plan=plan, cost={
            MINUTE: 0, DAILY: 0, limit: cost})


system = driver.System("unraveldocs: tiered AI limits, two buckets per user",
                       "000-", Fixture)
line = system.line


# ---- scope and flow ----

@line("000-R01", "only `/api/v1/ai/**` is limited")
def _(d):
    yield ("free user on `/api/v1/users`",
           d.burst(100, "/api/v1/users", user="u"), "100 pass")
    yield ("on `/api/v1/ai/a/b`", d.burst(9, "POST /api/v1/ai/a/b", user="u"),
           "8 pass, then 429 by ai-minute")
    yield ("then `//api/v1/%61i/x`", d.burst(1, "//api/v1/%61i/x", user="u"),
           "0 pass, then 429 by ai-minute")
    yield ("behind Caddy the application answers `/api/v1/users`",
           d.proxy.ask("/api/v1/users").text, "GET /api/v1/users \n")


@line("000-R02", "two token buckets per user, minute and day")
def _(d):
    kinds = [(p["name"], p["kind"]) for p in d.check(AI, user="u")["limits"]]
    yield "limits of a request", kinds, [(DAILY, "token-bucket"),
                                         (MINUTE, "token-bucket")]
    yield "free user at once", d.ai(8, user="u"), "7 pass, then 429 by ai-minute"
    d.fresh()
    d.spend(DAILY, 50, "u", "free")
    yield "after 50 in a day", d.ai(user="u"), "0 pass, then 429 by ai-daily"


@line("000-R03", "each user has a pair of buckets, by plan")
def _(d):
    yield "ann, free", d.ai(9, user="ann"), "8 pass, then 429 by ai-minute"
    yield "bob, free", d.ai(9, user="bob"), "8 pass, then 429 by ai-minute"
    yield ("cid, pro", d.ai(41, user="cid", plan="PRO_MONTHLY"),
           "40 pass, then 429 by ai-minute")


@line("000-R04", "master switch; off touches nothing")
def _(d):
    yield "on: a free user", d.ai(9, user="u"), "8 pass, then 429 by ai-minute"
    off = d.other("variants/unraveldocs-disabled.yaml")
    yield "`enabled: false`", off.burst(100, AI, user="u"), "100 pass"
    yield ("limits that were taken from",
           len(off.check(AI, user="u")["limits"]), 0)


@line("000-R05", "no subscription or plan means free")
def _(d):
    yield ("user without a plan", d.ai(9, user="a"),
           "8 pass, then 429 by ai-minute")
    d.subject("user", "b", roles=["member"])
    yield ("registered without a plan", d.ai(9, user="b"),
           "8 pass, then 429 by ai-minute")
    yield ("not registered, beside one who is", d.ai(9, user="c"),
           "8 pass, then 429 by ai-minute")
    yield ("its plan", d.check(AI, user="c")["limits"][0]["plan"], "free")


@line("000-R06", "the daily bucket is checked first; if empty, the minute "
      "bucket is not touched")
def _(d):
    d.spend(DAILY, 50, "u", "free")
    yield "day empty", d.ai(3, user="u"), "0 pass, then 429 by ai-daily"
    yield "left of the minute", d.left(MINUTE, "u"), 8
    d.spend(MINUTE, 8, "v", "free")
    d.spend(DAILY, 50, "v", "free")
    yield "both empty", d.ai(1, user="v"), "0 pass, then 429 by ai-daily"


@line("000-R07", "a denial by the minute bucket costs no daily token")
def _(d):
    d.ai(8, user="u")
    yield "minute empty", d.ai(100, user="u"), "0 pass, then 429 by ai-minute"
    yield "left of the day", d.left(DAILY, "u"), 42


@line("000-R08", "unauthenticated callers pass")
def _(d):
    yield "no user", d.ai(100), "100 pass"
    answer = d.proxy.ask(AI)
    yield ("behind Caddy without a token", (answer.status, answer.text),
           (200, f"GET {AI} \n"))
    yield "its X-RateLimit-Limit", answer["X-RateLimit-Limit"] or "none", "none"


@line("000-R09", "unknown users pass", differs=UNKNOWN)
def _(d):
    d.subject("user", "ann", plan="PRO_MONTHLY")
    yield ("user that is not found, as one without a plan (000-R05)",
           d.ai(9, user="bob"), "8 pass, then 429 by ai-minute")
    with open(d.policy, encoding="utf-8") as file:
        shipped = file.read()
    d.must(d.admin.ask("POST", "/v1/policy", shipped.replace(
        "# unknown_subject: pass", "unknown_subject: pass")))
    yield "with `unknown_subject: pass`", d.ai(100, user="bob"), "100 pass"
    d.must(d.admin.ask("POST", "/v1/policy", shipped))


@line("000-R10", "the plan is looked up on every request")
def _(d):
    d.subject("user", "u", plan="PRO_MONTHLY")
    yield "registered as PRO_MONTHLY", d.check(AI, user="u")["limits"][1][
        "plan"], "pro"
    d.subject("user", "u", plan="BUSINESS_YEARLY")
    yield "changed, the next request", d.check(AI, user="u")["limits"][1][
        "plan"], "business"


@line("000-R11", "an answer shows the tokens left in the minute")
def _(d):
    seen = [numbers(v)[1] for v in d.checks(3, AI, user="u", plan="pro")]
    yield "X-RateLimit-Remaining of three requests", seen, [39, 38, 37]
    yield "free user", d.ai(9, user="f"), "8 pass, then 429 by ai-minute"


@line("000-R12", "the limit can be read without a take")
def _(d):
    yield ("cost 0, limit and remaining, asked twice",
           [numbers(v) for v in d.checks(2, AI, user="u", plan="pro", cost=0)],
           [(30, 40), (30, 40)])


@line("000-R13", "buckets start full and are kept")
def _(d):
    yield ("first request of a pro user leaves",
           numbers(d.check(AI, user="u", plan="pro"))[1], 39)
    yield "the second", numbers(d.check(AI, user="u", plan="pro"))[1], 38
    yield "left of the day", d.left(DAILY, "u", plan="pro"), 498


@line("000-R14", "a restart refills in memory; share by Redis")
def _(_):
    short = Daemon("unraveldocs.yaml", "--store", "memory:").start()
    short.burst(8, AI, user="u")
    short.stop()
    short.start()
    yield ("`--store memory:`, after a restart", short.burst(9, AI, user="u"),
           "8 pass, then 429 by ai-minute")
    short.stop()
    kept = Daemon("unraveldocs.yaml").start()
    kept.burst(8, AI, user="u")
    kept.stop("kill")
    kept.start()
    yield ("as shipped, with a state file, after `kill -9`",
           kept.burst(1, AI, user="u"), "0 pass, then 429 by ai-minute")
    kept.stop()
    redis = Redis()
    pair = [Daemon("unraveldocs.yaml", "--store", redis.url).start()
            for _ in range(2)]
    yield ("two daemons on a Redis: the first", pair[0].burst(5, AI, user="u"),
           "5 pass")
    yield "the second", pair[1].burst(4, AI, user="u"), (
        "3 pass, then 429 by ai-minute")
    yield "keys in Redis", redis.keys(), ["u:daily", "u:minute"]
    for one in pair:
        one.stop()
    redis.kill()


@line("000-R15", "the principal is an e-mail, mapped to an id")
def _(d):
    d.subject("user", "4711", plan="PRO_MONTHLY", aliases=["ann@example.org"])
    answer = d.proxy.ask(AI, d.bearer(sub="ann@example.org"))
    yield ("token of `ann@example.org` behind Caddy",
           (answer.status, answer["X-RateLimit-Limit"],
            answer["X-RateLimit-Remaining"]), (200, "30", "39"))
    yield "left of user 4711", d.left(MINUTE, "4711", plan="pro"), 39


# ---- configuration ----

@line("000-K01", "rates, bursts and days by tier are settings")
def _(d):
    with open(d.policy, encoding="utf-8") as file:
        text = file.read()
    text = text.replace("free: 50/day", "free: 7/day").replace(
        "free: 5/min burst 8", "free: 6/min burst 3").replace(
        "enabled: true", "enabled: false")
    d.must(d.admin.ask("POST", "/v1/policy", text))
    yield "`enabled: false`, reloaded", d.ai(20, user="u"), "20 pass"
    text = text.replace("enabled: false", "enabled: true")
    d.must(d.admin.ask("POST", "/v1/policy", text))
    parts = {p["name"]: p for p in d.check(AI, user="u")["limits"]}
    yield ("free with other numbers: rate, burst and day",
           (parts[MINUTE]["limit"], parts[MINUTE]["burst"],
            parts[DAILY]["limit"]), (6, 3, 7))
    with open(d.policy, encoding="utf-8") as file:
        d.must(d.admin.ask("POST", "/v1/policy", file.read()))


@line("000-K02", "keys `{userId}:minute`, `{userId}:daily`")
def _(_):
    redis = Redis()
    shared = Daemon("unraveldocs.yaml", "--store", redis.url).start()
    shared.check(AI, user="4711")
    yield "keys in a Redis, of user 4711", redis.keys(), [
        "4711:daily", "4711:minute"]
    shared.stop()
    redis.kill()


@line("000-K03", "plan names map to tiers")
def _(d):
    seen = [d.check(AI, user="u", plan=plan)["limits"][0]["plan"] for plan in (
        "STARTER_MONTHLY", "STARTER_YEARLY", "PRO_MONTHLY", "PRO_YEARLY",
        "BUSINESS_MONTHLY", "BUSINESS_YEARLY", "ENTERPRISE")]
    seen.append(d.check(AI, user="u")["limits"][0]["plan"])
    yield "the six names, `ENTERPRISE` and none", seen, [
        "starter", "starter", "pro", "pro", "business", "business", "free",
        "free"]


@line("000-R16", "a tier that is not configured falls back to free",
      differs=EVERY_PLAN)
def _(d):
    yield "policy without numbers of business", refused(
        d, ", business: 1000/day"), (422, True)


@line("000-R17", "free needs no configuration, the others do",
      differs=EVERY_PLAN)
def _(d):
    yield "policy without numbers of free", refused(
        d, "free: 50/day, "), (422, True)
    yield "policy without numbers of pro", refused(
        d, " pro: 500/day,"), (422, True)


def refused(d, without):
    """The status of a policy that lacks a piece, and whether it says which."""
    with open(d.policy, encoding="utf-8") as file:
        text = file.read()
    plan = without.strip(" ,").partition(":")[0]
    answer = d.admin.ask("POST", "/v1/policy", text.replace(without, "", 1))
    return answer.status, f'"{plan}"' in answer.text.replace("\\", "")


def tier(plan, name, rate, burst, day):
    def look(d):
        parts = {p["name"]: p for p in d.check(
            AI, user="u", plan=plan, cost=0)["limits"]}
        yield ("rate, burst and day", (parts[MINUTE]["limit"],
               parts[MINUTE]["burst"], parts[DAILY]["limit"]),
               (rate, burst, day))
        yield ("at once", d.ai(burst + 1, user="u", plan=plan),
               f"{burst} pass, then 429 by ai-minute")
        d.spend(DAILY, day, "v", plan)
        yield ("after a day's", d.ai(user="v", plan=plan),
               "0 pass, then 429 by ai-daily")
    line(name[0], name[1])(look)


tier("FREE", ("000-N01", "free: 5 a minute, burst 8, 50 a day"), 5, 8, 50)
tier("STARTER_MONTHLY", ("000-N02", "starter: 15, 20, 200"), 15, 20, 200)
tier("PRO_MONTHLY", ("000-N03", "pro: 30, 40, 500"), 30, 40, 500)
tier("BUSINESS_YEARLY", ("000-N04", "business: 60, 80, 1000"), 60, 80, 1000)


@line("000-R18", "minute bucket: capacity is the burst, greedy")
def _(d):
    d.ai(8, user="u")
    d.at("2026-02-26T12:00:11.999Z")
    yield "empty, 11.999 s later", d.ai(user="u"), "0 pass, then 429 by ai-minute"
    d.at("2026-02-26T12:00:12Z")
    yield "12 s later", d.ai(2, user="u"), "1 pass, then 429 by ai-minute"
    d.at("2026-02-26T13:00:00Z")
    yield "an hour later", d.ai(9, user="u"), "8 pass, then 429 by ai-minute"


@line("000-R19", "daily bucket: capacity is the day's limit, greedy")
def _(d):
    d.spend(DAILY, 50, "u", "free")
    d.at("2026-02-26T12:28:47.999Z")
    yield "empty, 1727.999 s later", d.ai(user="u"), "0 pass, then 429 by ai-daily"
    d.at("2026-02-26T12:28:48Z")
    yield "1728 s later", d.ai(2, user="u"), "1 pass, then 429 by ai-daily"


@line("000-N05", "pro refills 0.5 tokens per second, 0.0058 for the day")
def _(d):
    d.spend(MINUTE, 40, "u", "pro")
    d.spend(DAILY, 500, "v", "pro")
    d.at("2026-02-26T12:00:10Z")
    yield "minute, empty, after 10 s", d.left(MINUTE, "u", plan="pro"), 5
    d.at("2026-02-26T12:28:48Z")
    yield "day, empty, after 1728 s", d.left(DAILY, "v", plan="pro"), 10


@line("000-R20", "greedy refill, or by interval")
def _(d):
    with open(d.policy, encoding="utf-8") as file:
        shipped = file.read()
    d.must(d.admin.ask("POST", "/v1/policy", shipped.replace(
        'key: "{user}:minute"', 'refill: interval\n    key: "{user}:minute"')))
    d.ai(8, user="u")
    d.at("2026-02-26T12:00:59Z")
    yield ("`refill: interval`, empty, 59 s later", d.ai(1, user="u"),
           "0 pass, then 429 by ai-minute")
    d.at("2026-02-26T12:01:00Z")
    yield "60 s later", d.ai(6, user="u"), "5 pass, then 429 by ai-minute"
    d.must(d.admin.ask("POST", "/v1/policy", shipped))
    d.fresh()
    d.ai(8, user="u")
    d.at("2026-02-26T12:00:12Z")
    yield "as shipped, 12 s later", d.ai(1, user="u"), "1 pass"


# ---- headers and errors ----

@line("000-H01", "`X-RateLimit-Limit` is the rate per minute")
def _(d):
    seen = [d.check(AI, user="u", plan=plan)["headers"]["X-RateLimit-Limit"]
            for plan in ("free", "starter", "pro", "business")]
    yield "free, starter, pro, business", seen, ["5", "15", "30", "60"]


@line("000-H02", "`X-RateLimit-Remaining` is what is left of the minute")
def _(d):
    d.spend(MINUTE, 10, "u", "pro")
    verdict = d.check(AI, user="u", plan="pro")
    yield "40, 10 and 1 taken", verdict["headers"]["X-RateLimit-Remaining"], "29"


@line("000-H03", "headers whether the limit was hit or not")
def _(d):
    token = d.bearer(sub="u")
    seen = [d.proxy.ask(AI, token) for _ in range(9)]
    for what, answer in (("passed", seen[0]), ("denied", seen[8])):
        yield (f"behind Caddy, {what}: status, limit and remaining",
               (answer.status, answer["X-RateLimit-Limit"],
                answer["X-RateLimit-Remaining"]),
               (200, "5", "7") if what == "passed" else (429, "5", "0"))


@line("000-H04", "example: 30 and 28, then 27")
def _(d):
    d.spend(MINUTE, 11, "u", "pro")
    yield ("limit and remaining", [numbers(v) for v in d.checks(
        2, AI, user="u", plan="pro")], [(30, 28), (30, 27)])


@line("000-H05", "`X-RateLimit-Reset`, the time of the next token, as an "
      "improvement")
def _(d):
    verdict = d.checks(9, AI, user="u")[8]
    yield ("denied at 12:00:00, the next token at 12:00:12",
           verdict["headers"]["X-RateLimit-Reset"], "1772107212")


@line("000-H06", "`Retry-After`, as an improvement")
def _(d):
    yield ("minute empty", d.checks(9, AI, user="u")[8]["headers"][
        "Retry-After"], "12")
    d.at("2026-02-26T12:00:05.5Z")
    yield ("5.5 s later", d.check(AI, user="u")["headers"]["Retry-After"], "7")


@line("000-H07", "switched off, headers show the largest long",
      differs=NO_LIMIT)
def _(d):
    head = d.other("variants/unraveldocs-disabled.yaml").check(
        AI, user="u", plan="pro")["headers"]
    yield ("switched off, rate-limit headers",
           [name for name in head if "RateLimit" in name], [])


@line("000-S01", "429")
def _(d):
    token = d.bearer(sub="u")
    yield ("ninth request behind Caddy",
           [d.proxy.ask(AI, token).status for _ in range(9)][7:], [200, 429])


@line("000-E01", "message of the minute limit")
def _(d):
    yield "free", d.checks(9, AI, user="u")[8]["body"]["message"], (
        "Rate limit exceeded. Maximum 5 AI requests per minute. Please try "
        "again shortly.")


@line("000-E02", "message of the daily limit")
def _(d):
    d.spend(DAILY, 200, "u", "starter")
    yield "starter", d.check(AI, user="u", plan="starter")["body"]["message"], (
        "Daily AI request limit of 200 exceeded. Limit resets in 24 hours.")


@line("000-E03", "body with status, error, message, timestamp")
def _(d):
    token = d.bearer(sub="u", plan="PRO_YEARLY")
    answer = [d.proxy.ask(AI, token) for _ in range(41)][40]
    yield ("41st request of pro behind Caddy", answer.text,
           '{"status":429,"error":"Too Many Requests","message":"Rate limit '
           'exceeded. Maximum 30 AI requests per minute. Please try again '
           'shortly.","timestamp":"2026-02-26T12:00:00Z"}')
    yield "its type", answer["Content-Type"], "application/json"


@line("000-E04", "a denial is mapped to a response in one place")
def _(d):
    d.ai(8, user="u")
    d.spend(DAILY, 50, "v", "free")
    seen = [sorted(d.check(AI, user=user)["body"]) for user in ("u", "v")]
    yield ("members of the body, by minute and by day", seen,
           2 * [["error", "message", "status", "timestamp"]])


# ---- tests of the text ----

@line("000-T01", "flow: happy path")
def _(d):
    d.spend(MINUTE, 12, "u", "pro")
    d.spend(DAILY, 8, "u", "pro")
    verdict = d.check(AI, user="u", plan="PRO_MONTHLY")
    yield ("minute 28, day 492, a request: status, minute, day",
           (verdict["status"], numbers(verdict, MINUTE)[1],
            numbers(verdict, DAILY)[1]), (200, 27, 491))


@line("000-T02", "flow: minute hit")
def _(d):
    d.spend(MINUTE, 8, "u", "free")
    d.spend(DAILY, 3, "u", "free")
    verdict = d.check(AI, user="u")
    yield ("minute 0, day 47, a request: status and `by`",
           (verdict["status"], verdict["by"]), (429, MINUTE))
    yield "the message has", "Maximum 5 " in verdict["message"], True
    yield "left of the day", d.left(DAILY, "u"), 47


@line("000-T03", "flow: daily hit")
def _(d):
    d.spend(MINUTE, 5, "u", "starter")
    d.spend(DAILY, 200, "u", "starter")
    verdict = d.check(AI, user="u", plan="starter")
    yield ("minute 15, day 0, a request: status and `by`",
           (verdict["status"], verdict["by"]), (429, DAILY))
    yield "the message has the limit 200", " 200 " in verdict["message"], True
    yield "left of the minute", d.left(MINUTE, "u", plan="starter"), 15


@line("000-T04", "flow: switched off")
def _(d):
    off = d.other("variants/unraveldocs-disabled.yaml")
    yield "free user", off.burst(1000, AI, user="u"), "1000 pass"


@line("000-T05", "lifecycle of buckets")
def _(d):
    yield ("full: minute and day", (d.left(MINUTE, "u", plan="pro"),
           d.left(DAILY, "u", plan="pro")), (40, 500))
    d.ai(2, user="u", plan="pro")
    d.at("2026-02-26T12:00:02Z")
    d.ai(user="u", plan="pro")
    yield ("after two, a pause of 2 s and one more", (
        d.left(MINUTE, "u", plan="pro"), d.left(DAILY, "u", plan="pro")),
           (38, 497))


# ---- contradictions and errors of the text ----

@line("000-B01", "a greedy bucket is not a hard ceiling")
def _(d):
    yield ("a day of demand, as shipped (greedy)",
           demand(d, "2026-02-26"), 999)
    hard = d.other("variants/unraveldocs-hard.yaml")
    yield ("`variants/unraveldocs-hard.yaml`", demand(hard, "2026-02-26"), 500)


def demand(d, day):
    """Requests of a pro user that pass in a day, asked for at each moment when
    a token comes back: every 172.8 s."""
    d.fresh(day + "T00:00:00Z")
    passed = 0
    for tick in range(500):
        ms = tick * 172800
        if tick:
            d.at(f"{day}T{ms // 3600000:02}:{ms // 60000 % 60:02}:"
                 f"{ms // 1000 % 60:02}.{ms % 1000:03}Z")
        passed += sum(v["allowed"] for v in d.checks(
            501 if tick == 0 else 2, AI, user="u", plan="pro",
            cost={MINUTE: 0, DAILY: 1}))
    return passed


@line("000-B02", "the daily limit does not reset in 24 hours", differs=TEXTS)
def _(d):
    waits = []
    for plan, day in (("free", 50), ("starter", 200), ("pro", 500),
                      ("business", 1000)):
        d.spend(DAILY, day, plan, plan)
        waits.append(d.check(AI, user=plan, plan=plan)["retry_after_ms"])
    yield ("empty day, exact wait of free, starter, pro, business in ms",
           waits, [1728000, 432000, 172800, 86400])
    yield ("the message still has", d.check(AI, user="pro", plan="pro")[
        "message"].partition(". ")[2], "Limit resets in 24 hours.")


@line("000-B03", "take and refund are two steps")
def _(d):
    d.ai(8, user="u")
    before = d.left(DAILY, "u")
    verdicts = d.checks(500, AI, user="u")
    least = min(numbers(v, DAILY)[1] for v in verdicts)
    yield ("500 denials by the minute, left of the day before, meanwhile and "
           "after", (before, least, d.left(DAILY, "u")), (42, 42, 42))
    yield names("test/threads/hammer.c", "test_sets")


@line("000-B04", "a 429 has no headers")
def _(d):
    head = d.checks(9, AI, user="u")[8]["headers"]
    yield ("of a 429", [name for name in (
        "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
        "Retry-After") if name in head],
           ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
            "Retry-After"])


@line("000-B05", "a change of plan keeps the old bucket")
def _(d):
    yield "free", d.ai(9, user="u", plan="free"), "8 pass, then 429 by ai-minute"
    yield ("upgraded to pro, the next request: limit and remaining",
           numbers(d.check(AI, user="u", plan="pro")), (30, 31))
    verdict = d.check(AI, user="u", plan="free")
    yield ("back to free: status and wait in ms", (
        verdict["status"], verdict["retry_after_ms"]), (429, 24000))


@line("000-B06", "remaining may exceed the limit; 69 in a minute")
def _(d):
    yield ("a new pro user: limit and remaining",
           numbers(d.check(AI, user="x", plan="pro", cost=0)), (30, 40))
    passed = d.ai(41, user="u", plan="pro")
    count = int(passed.split()[0])
    for second in range(1, 60):
        d.at(f"2026-02-26T12:00:{second:02}Z")
        count += sum(v["allowed"] for v in d.checks(
            2, AI, user="u", plan="pro"))
    yield "pass in the first minute", count, 69


@line("000-B07", "memory grows with every user")
def _(_):
    small = Daemon("unraveldocs.yaml", "--store", "memory:", "--memory",
                   "1MiB").start()
    before = small.metric("sluice_table_bytes")
    for part in range(40):
        small.must(small.http.ask("POST", "/v1/check", [
            {"path": AI, "user": f"{part}-{i}"} for i in range(1000)]))
    yield ("40000 users with `--memory 1MiB`, the table grows by (bytes)",
           small.metric("sluice_table_bytes") - before, 0)
    yield ("keys gave way to others",
           small.metric("sluice_table_evictions_total") > 0, True)
    small.stop()
    yield names("test/unit/table/flood.c", "test_washing")


@line("000-B08", "a paying customer is silently free")
def _(d):
    yield "a policy without numbers of business: status, plan named", refused(
        d, ", business: 1000/day"), (422, True)


@line("000-B09", "two database reads per request")
def _(d):
    d.subject("user", "u", plan="PRO_MONTHLY")
    d.ai(1, user="u")
    loaded = 'sluice_subject_lookups_total{result="loaded"}'
    before = d.metric(loaded)
    d.ai(100, user="u")
    yield ("reads of the registry for 100 further requests",
           d.metric(loaded) - before, 0)


@line("000-B10", "unknown callers are unlimited", decision=IDENTITY)
def _(d):
    yield "no user", d.ai(100), "100 pass"
    with open(d.policy, encoding="utf-8") as file:
        shipped = file.read()
    d.must(d.admin.ask("POST", "/v1/policy", shipped.replace(
        "anonymous: pass", "anonymous: limit").replace(
        "missing: skip", "missing: anonymous").replace("{user}:", "{scope}:{id}:")))
    yield ("with the settings of the comment, by address",
           d.ai(9, ip="192.0.2.7"), "8 pass, then 429 by ai-minute")
    d.must(d.admin.ask("POST", "/v1/policy", shipped.replace(
        "anonymous: pass", "anonymous: deny")))
    yield "with `anonymous: deny`", d.ai(1), "0 pass, then 401"
    d.must(d.admin.ask("POST", "/v1/policy", shipped))


@line("000-B11", "JavaScript cannot represent the largest long")
def _(d):
    head = d.other("variants/unraveldocs-disabled.yaml").check(
        AI, user="u")["headers"]
    yield "switched off, X-RateLimit-Remaining", head.get(
        "X-RateLimit-Remaining", "none"), "none"


@line("000-B12", "the advice for Reset names the wrong calls")
def _(d):
    d.spend(MINUTE, 40, "u", "pro")
    verdict = d.check(AI, user="u", plan="pro")
    d.at("2026-02-26T12:00:02Z")
    yield ("pro, denied: wait in ms", verdict["retry_after_ms"], 2000)
    yield "then", d.ai(2, user="u", plan="pro"), "1 pass, then 429 by ai-minute"


@line("000-B13", "a constant Retry-After is wrong")
def _(d):
    seen = []
    for plan, burst in (("free", 8), ("starter", 20), ("pro", 40)):
        d.spend(MINUTE, burst, plan, plan)
        seen.append(d.check(AI, user=plan, plan=plan)["headers"]["Retry-After"])
    d.spend(DAILY, 50, "u", "free")
    seen.append(d.check(AI, user="u")["headers"]["Retry-After"])
    yield "minute of free, starter, pro; day of free", seen, [
        "12", "4", "2", "1728"]


@line("000-X01", "short and long messages differ", decision=TEXTS)
def _(d):
    yield "the long one is sent", d.checks(9, AI, user="u")[8]["message"], (
        "Rate limit exceeded. Maximum 5 AI requests per minute. Please try "
        "again shortly.")


@line("000-X02", "short and full bodies differ", decision=TEXTS)
def _(d):
    yield ("the full one is sent, with", sorted(
        d.checks(9, AI, user="u")[8]["body"]),
           ["error", "message", "status", "timestamp"])


@line("000-X03", "free is hard-coded and configurable", decision=EVERY_PLAN)
def _(d):
    yield "a policy without numbers of free: status, plan named", refused(
        d, "free: 50/day, "), (422, True)


@line("000-Q01", "which numbers does a daily denial show?", decision=DENIED)
def _(d):
    d.spend(DAILY, 200, "u", "starter")
    yield ("those of the day: limit and remaining",
           numbers(d.check(AI, user="u", plan="starter")), (200, 0))


@line("000-Q02", "the remaining daily tokens are never shown")
def _(d):
    verdict = d.check(AI, user="u", plan="pro")
    yield "the day in the verdict: limit and remaining", numbers(
        verdict, DAILY), (500, 499)
    yield "cost 0 on `ai-daily`", d.left(DAILY, "u", plan="pro"), 499


if __name__ == "__main__":
    system.main()
