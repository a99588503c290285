#!/usr/bin/python3
"""grpcio -- Debian's python3-grpcio against the grpc door.

usage: grpcio.py SLUICED_TEST
"""

import json
import sys

import grpc

import grpcs
from grpcs import (HEALTH, SHOULD, Daemon, HealthRequest, HealthResponse,
                   Request, Response, Tap, request, short)

POLICY = """
sluice: 1
plans: { default: free, free: {}, paid: {} }
identity: { tenant: [header.x-tenant] }
limits:
  minute:
    kind: token-bucket
    per: user
    missing: skip
    rate: { free: 5/min burst 3, paid: unlimited }
  hour: { kind: fixed-window, per: org, missing: skip, rate: 4/hour }
  tenant: { kind: fixed-window, per: tenant, missing: skip, rate: 2/day }
  ip: { kind: sliding-window, per: ip, rate: 2/min }
  month: { kind: quota, per: org, missing: skip, rate: 3/month }
  tried: { kind: fixed-window, per: user, rate: 1/min, mode: shadow }
  all: { kind: fixed-window, per: [], rate: 1000/day }
  b1: { kind: fixed-window, per: user, rate: 9/s }
  b2: { kind: fixed-window, per: user, rate: 9/s }
  b3: { kind: fixed-window, per: user, rate: 9/s }
features: { beta: { enabled: false, message: "Not yet." } }
routes:
  - { job: api, limits: [minute, hour, tenant] }
  - { job: each, limits: [hour, minute], count: each }
  - { job: months, limits: [month] }
  - { job: tried, limits: [tried] }
  - { job: shared, limits: [all] }
  - { job: beta, feature: beta, limits: [all] }
  - { job: members, roles: [member], limits: [all] }
  - { job: many, limits: [b1, b2, b3] }
  - { match: "GET /v1/**", limits: [ip] }
default: []
"""


class Client:
    def __init__(self, where, **metadata):
        self.channel = grpc.insecure_channel(where)
        self.metadata = [(k, v) for k, v in metadata.items()]
        self.should = self.channel.unary_unary(
            SHOULD, Request.SerializeToString, Response.FromString)
        self.check = self.channel.unary_unary(
            HEALTH + "Check", HealthRequest.SerializeToString,
            HealthResponse.FromString)
        self.watch = self.channel.unary_stream(
            HEALTH + "Watch", HealthRequest.SerializeToString,
            HealthResponse.FromString)

    def ask(self, *what, **more):
        return self.should(request(*what, **more), timeout=60,
                           metadata=self.metadata)

    def short(self, *what, **more):
        return short(self.ask(*what, **more))

    def error(self, call):
        """The status of a call that fails, and its sentence."""
        try:
            return "OK", call()
        except grpc.RpcError as error:
            return error.code().name, error.details()


def test_together(tap, daemon, client):
    daemon.at("1970-01-01T00:00:00Z")
    both = ("api", {"user": "ann"}, {"org": "acme"})
    tap.same("descriptors are taken together", client.short(*both),
             "OK minute:5/MINUTE=2 hour:4/HOUR=3")
    client.ask(*both)
    tap.same("down to the last", client.short(*both),
             "OK minute:5/MINUTE=0 hour:4/HOUR=1")
    tap.same("and what is denied spends nothing anywhere",
             client.short(*both), "OVER_LIMIT !minute:5/MINUTE=0 "
             "hour:4/HOUR=1")
    tap.same("for others it is still there",
             client.short("api", {"user": "bob", "org": "acme"}),
             "OK hour:4/HOUR=0")
    daemon.at("1970-01-01T00:00:12Z")
    tap.same("twelve seconds later there is one, and the other denies",
             client.short(*both), "OVER_LIMIT minute:5/MINUTE=1 "
             "!hour:4/HOUR=0")


def test_denial(tap, daemon, client):
    daemon.at("1970-01-02T00:00:00Z")
    for _ in range(3):
        client.ask("api", {"user": "cy"})
    answer = client.ask("api", {"user": "cy"})
    seen = grpcs.headers(answer)
    tap.same("a denial says when to come back", seen.get("retry-after"), "12")
    tap.same("names of headers are in lower case",
             [k for k in seen if k != k.lower()], [])
    tap.same("the body has a type", seen.get("content-type"),
             "application/problem+json")
    body = json.loads(answer.raw_body)
    tap.same("and is that of the http door",
             [body["status"], body["code"], body["retry_after"]],
             [429, "RATE_LIMITED", 12])
    tap.same("the reset is when all is there again",
             answer.statuses[0].duration_until_reset.seconds, 36)
    found = json.loads(daemon.tell("/v1/denials?request_id=" +
                                   body["request_id"]))["denials"]
    tap.same("the history has it by the id that the client was told",
             [(one["reason"], one["limit"]) for one in found],
             [("limit", body["violated-policies"][0])])
    good = client.ask("api", {"user": "dan"})
    tap.same("who passes gets headers, and no body",
             [good.raw_body, grpcs.headers(good).get("x-ratelimit-limit"),
              "retry-after" in grpcs.headers(good)], [b"", "5", False])


def test_attributes(tap, daemon, client):
    daemon.at("1970-01-03T00:00:00Z")
    tap.same("a plan counts",
             client.short("api", {"user": "eve", "plan": "paid"}),
             "OK left=4294967295")
    tap.same("scopes of the policy are read from entries",
             client.short("api", {"tenant": "t1"}), "OK tenant:2/DAY=1")
    tap.same("and from headers",
             client.short("api", {"header.x-tenant": "t1"}),
             "OK tenant:2/DAY=0")
    tap.same("a path takes its route, whatever the domain",
             client.short("x", {"method": "GET", "path": "/v1/a",
                                "remote_address": "192.0.2.9"}),
             "OK ip:2/MINUTE=1")
    tap.same("other spellings of an address are the same one",
             client.short("x", {"method": "GET", "path": "/V1/a",
                                "ip": "::ffff:192.0.2.9"}),
             "OK ip:2/MINUTE=0")
    tap.same("keys that mean nothing say nothing",
             client.short("api", {"generic_key": "x", "user": "flo"}),
             "OK minute:5/MINUTE=2")
    tap.same("no route, no limit", client.short("nowhere", {"user": "x"}),
             "OK -")
    tap.same("a calendar has a unit", client.short("months", {"org": "o"}),
             "OK month:3/MONTH=2")
    tap.same("shadow limits are shown and deny nothing",
             [client.short("tried", {"user": "gus"}) for _ in range(2)],
             ["OK tried:1/MINUTE=0", "OK tried:1/MINUTE=0"])


def test_hits(tap, daemon, client):
    daemon.at("1970-01-04T00:00:00Z")
    hal = {"org": "hal"}
    tap.same("hits of the request", client.short("api", hal, hits=2),
             "OK hour:4/HOUR=2")
    tap.same("hits of a descriptor go first",
             client.short("api", {**hal, "-hits": 1}, hits=2),
             "OK hour:4/HOUR=1")
    tap.same("0 looks", client.short("api", {**hal, "-hits": 0}),
             "OK hour:4/HOUR=1")
    tap.same("too many are denied", client.short("api", hal, hits=2),
             "OVER_LIMIT !hour:4/HOUR=1")
    client.ask("api", hal)
    tap.same("looking at what is used up says so",
             client.short("api", {**hal, "-hits": 0}),
             "OVER_LIMIT !hour:4/HOUR=0")
    tap.same("and keeps the rest from being taken",
             client.short("api", {**hal, "-hits": 0}, {"org": "ivy"}),
             "OVER_LIMIT !hour:4/HOUR=0 hour:4/HOUR=4")
    tap.same("which is untouched", client.short("api", {"org": "ivy"}),
             "OK hour:4/HOUR=3")
    tap.same("hits are given back",
             client.short("api", {**hal, "-hits": 3, "-negative": True}),
             "OK hour:4/HOUR=3")
    tap.same("never more than there were",
             client.short("api", {**hal, "-hits": 9, "-negative": True}),
             "OK hour:4/HOUR=4")
    tap.same("more than it ever holds is denied for good",
             [client.short("api", hal, hits=5),
              "retry-after" in grpcs.headers(client.ask("api", hal, hits=5))],
             ["OVER_LIMIT !hour:4/HOUR=4", False])


def test_same_key(tap, daemon, client):
    daemon.at("1970-01-05T00:00:00Z")
    tap.same("one limit under one key is taken once, by the larger",
             client.short("shared", {"a": "1"}, {"b": "2", "-hits": 5}),
             "OK all:1000/DAY=995 all:1000/DAY=995")


def test_each(tap, daemon, client):
    daemon.at("1970-01-06T00:00:00Z")
    jo, org = {"user": "jo"}, {"org": "jay"}
    for _ in range(3):
        client.ask("each", jo, org)
    tap.same("count: each takes each for itself",
             client.short("each", jo, org),
             "OVER_LIMIT !minute:5/MINUTE=0 hour:4/HOUR=0")
    tap.same("also what comes behind a denial",
             client.short("each", org), "OVER_LIMIT !hour:4/HOUR=0")
    kim = {"org": "kim"}
    client.ask("each", kim, hits=3)
    tap.same("and counts what windows refuse", client.short(
        "each", kim, hits=3), "OVER_LIMIT !hour:4/HOUR=1")
    tap.same("so that less is refused, too",
             client.short("each", kim), "OVER_LIMIT !hour:4/HOUR=0")


def test_limits_of_envoy(tap, daemon, client):
    daemon.at("1970-01-07T00:00:00Z")
    lee = {"org": "lee"}
    tap.same("numbers that Envoy brings count for their unit",
             client.short("api", {**lee, "-limit": (2, 3)}),
             "OK hour:2/HOUR=1")
    tap.same("and not for others",
             client.short("api", {**lee, "-limit": (1, 2)}),
             "OK hour:4/HOUR=2")
    tap.same("what was used stays used",
             client.short("api", {**lee, "-limit": (2, 3)}),
             "OVER_LIMIT !hour:2/HOUR=0")
    tap.same("none at all lets nothing pass",
             client.short("api", {"org": "mo", "-limit": (0, 3)}),
             "OVER_LIMIT !")
    tap.same("a unit that there is not is an error",
             client.error(lambda: client.ask(
                 "api", {**lee, "-limit": (1, 0)}))[0], "INVALID_ARGUMENT")


def test_other_reasons(tap, client):
    answer = client.ask("beta", {"user": "x"})
    body = json.loads(answer.raw_body)
    tap.same("what is switched off is denied, in its words",
             [short(answer), body["status"], body["detail"]],
             ["OVER_LIMIT !", 503, "Not yet."])
    tap.same("so is who may not", client.short("members", {"user": "x"}),
             "OVER_LIMIT !")
    tap.same("and who may passes",
             client.short("members", {"user": "x", "role": "member"}),
             "OK all:1000/DAY=999")


def test_errors(tap, client):
    tap.same("no domain", client.error(lambda: client.ask("", {"a": "b"})),
             ("INVALID_ARGUMENT", "rate limit domain must not be empty"))
    tap.same("no descriptors", client.error(lambda: client.ask("api")),
             ("INVALID_ARGUMENT",
              "rate limit descriptor list must not be empty"))
    many = [{"user": f"u{i}"} for i in range(6)]
    tap.same("too many limits at once",
             client.error(lambda: client.ask("many", *many)),
             ("RESOURCE_EXHAUSTED", "the request matches more than 16 limits, "
              "the maximum for one take"))
    tap.same("as many as can be are fine",
             client.short("many", *many[:5]).split()[0], "OK")
    other = client.channel.unary_unary("/a.b.C/D", lambda x: x, lambda x: x)
    tap.same("another method", client.error(lambda: other(b"", timeout=60))[0],
             "UNIMPLEMENTED")
    raw = client.channel.unary_unary(SHOULD, lambda x: x, lambda x: x)
    tap.same("no message of ours",
             client.error(lambda: raw(b"\x0a\x05d", timeout=60)),
             ("INVALID_ARGUMENT", "not a RateLimitRequest: a field is "
              "longer than the message"))
    tap.same("sentences come through whatever is in them",
             client.error(lambda: client.check(
                 HealthRequest(service="50% é"), timeout=60)),
             ("NOT_FOUND", 'unknown service "50% é"'))
    zipped = grpc.insecure_channel(client.where, options=[
        ("grpc.default_compression_algorithm",
         grpc.Compression.Gzip.value)]).unary_unary(
             SHOULD, Request.SerializeToString, Response.FromString)
    tap.same("compressed messages are refused",
             client.error(lambda: zipped(request(
                 "api", {"user": "x" * 500}), timeout=60))[0], "UNIMPLEMENTED")
    tap.same("long ones too", client.error(lambda: client.ask(
        "api", {"user": "x" * 70000}))[0], "RESOURCE_EXHAUSTED")


def test_health(tap, daemon, client):
    for name in ("", "ratelimit", "envoy.service.ratelimit.v3."
                 "RateLimitService"):
        tap.same(f"\"{name}\" is serving", client.check(
            HealthRequest(service=name), timeout=60).status, 1)
    lost = client.watch(HealthRequest(service="x"), timeout=30)
    tap.same("a watch of another says that it is not known",
             next(lost).status, 3)
    lost.cancel()
    watch = client.watch(HealthRequest(), timeout=30)
    tap.same("a watch begins with how it is", next(watch).status, 1)
    daemon.process.terminate()
    tap.same("and tells when it ends", next(watch).status, 2)
    tap.same("which is the end of the watch, too",
             client.error(lambda: next(watch))[0], "UNAVAILABLE")
    tap.same("and of the daemon", daemon.stop(), 0)


def main():
    tap = Tap()
    daemon = Daemon(sys.argv[1], POLICY)
    client = Client(daemon.grpc)
    client.where = daemon.grpc
    test_together(tap, daemon, client)
    test_denial(tap, daemon, client)
    test_attributes(tap, daemon, client)
    test_hits(tap, daemon, client)
    test_same_key(tap, daemon, client)
    test_each(tap, daemon, client)
    test_limits_of_envoy(tap, daemon, client)
    test_other_reasons(tap, client)
    test_errors(tap, client)
    test_health(tap, daemon, client)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
