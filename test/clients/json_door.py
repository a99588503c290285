#!/usr/bin/python3
"""json_door -- what envoyproxy/ratelimit answers over HTTP: POST /json, GET
/healthcheck, and /rlconfig on the admin listener.

Answers are read by protobuf's own reader of JSON.

usage: json_door.py SLUICED_TEST
"""

import base64
import json
import sys
import urllib.error
import urllib.request

from google.protobuf import json_format

from grpcs import Daemon, Response, Tap, request, short

CONFIG = """
domain: d
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors:
      - { key: path, value: /a/*, shadow_mode: true, quota_mode: true,
          rate_limit: { unit: day, requests_per_unit: 3 } }
  - { key: free, rate_limit: { unlimited: true } }
"""


def ask(where, body, method="POST", path="/json"):
    """(status, text)"""
    asked = urllib.request.Request(
        f"http://{where}{path}", method=method,
        data=body.encode() if body is not None else None)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def user(name):
    return {"entries": [{"key": "user", "value": name}]}


def test_answers(tap, where):
    def told(body):
        status, text = ask(where, body)
        return status, short(json_format.Parse(text, Response()))

    ann = json.dumps({"domain": "d", "descriptors": [user("ann")]})
    tap.same("it passes", told(ann), (200, "OK d.user:2/MINUTE=1"))
    tap.same("as the other door would have it", told(
        json_format.MessageToJson(request("d", {"user": "ann"}))),
        (200, "OK d.user:2/MINUTE=0"))
    tap.same("and is denied", told(ann), (429, "OVER_LIMIT !d.user:2/MINUTE=0"))
    answer = json.loads(ask(where, ann)[1])
    tap.same("names are those of proto3's JSON",
             [answer["overallCode"], answer["statuses"][0]["currentLimit"],
              "limitRemaining" in answer["statuses"][0],
              answer["statuses"][0]["durationUntilReset"]],
             ["OVER_LIMIT", {"requestsPerUnit": 2, "unit": "MINUTE",
                             "name": "d.user"}, False, "60s"])
    tap.same("the body is in base64",
             json.loads(base64.b64decode(answer["rawBody"]))["code"],
             "RATE_LIMITED")
    for name, more in (
            ("camelCase", {"hitsAddend": 2}), ("snake_case",
                                               {"hits_addend": 2}),
            ("numbers as texts", {"hitsAddend": "2"})):
        tap.same(name, told(json.dumps({"domain": "d", "descriptors": [
            user(name)], **more})), (200, "OK d.user:2/MINUTE=0"))
    tap.same("all that a descriptor has", told(json.dumps(
        {"domain": "d", "descriptors": [
            {**user("x"), "hitsAddend": "1", "isNegativeHits": False,
             "limit": {"requestsPerUnit": 5, "unit": "MINUTE"}},
            {**user("y"), "hits_addend": 0, "is_negative_hits": False,
             "limit": {"requests_per_unit": 5, "unit": 2}},
            {"entries": [{"key": "free", "value": ""}]}]})),
        (200, "OK d.user:5/MINUTE=4 d.user:5/MINUTE=5 left=4294967295"))


def test_refusals(tap, where):
    rows = (
        ("no JSON", "{", "in double quotes"),
        ("nothing", "", ""),
        ("no domain", '{"descriptors": [{}]}', "domain must not be empty"),
        ("no descriptors", '{"domain": "d"}', "list must not be empty"),
        ("an unknown member", '{"domain": "d", "x": 1}', "a request may only have"),
        ("of a descriptor", '{"domain": "d", "descriptors": [{"x": 1}]}',
         "a descriptor may only have"),
        ("of an entry", '{"domain": "d", "descriptors": [{"entries": '
         '[{"key": "a", "x": "b"}]}]}', "an entry may only have"),
        ("an entry without a key", '{"domain": "d", "descriptors": '
         '[{"entries": [{"value": "a"}]}]}', "no key"),
        ("a negative number", '{"domain": "d", "descriptors": [{}], '
         '"hitsAddend": -1}', ""),
        ("a number that is none", '{"domain": "d", "descriptors": [{}], '
         '"hitsAddend": "x"}', "not a whole number"),
        ("one that is too large", '{"domain": "d", "descriptors": [{}], '
         '"hitsAddend": 4294967296}', "too large"),
        ("a unit that there is not", '{"domain": "d", "descriptors": '
         '[{"limit": {"unit": "FORTNIGHT"}}]}', "unknown unit"),
        ("unit 0", '{"domain": "d", "descriptors": [{"limit": {}}]}',
         "has unit 0"),
        ("too many descriptors", json.dumps(
            {"domain": "d", "descriptors": 65 * [{}]}), "more than 64"),
        ("too many entries", json.dumps({"domain": "d", "descriptors": [
            {"entries": 33 * [{"key": "a"}]}]}), "too many entries"),
    )
    for name, body, want in rows:
        status, text = ask(where, body)
        tap.check(f"{name} is 400", status == 400 and want in text,
                  (status, text))
    tap.same("other methods are not taken", ask(where, None, "GET")[0], 405)


def main():
    tap = Tap()
    daemon = Daemon(sys.argv[1], {"d.yaml": CONFIG})
    where = daemon.doors["http"]
    test_answers(tap, where)
    test_refusals(tap, where)
    tap.same("it is well", ask(where, None, "GET", "/healthcheck"),
             (200, "OK"))
    tap.same("what is in force, as they show it", daemon.tell("/rlconfig"),
             "d.user.path_/a/*: unit=DAY requests_per_unit=3, shadow_mode: "
             "true, quota_mode: true\n"
             "d.user: unit=MINUTE requests_per_unit=2, shadow_mode: false, "
             "quota_mode: false\n"
             "d.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, "
             "quota_mode: false\n")
    tap.same("it ends well", daemon.stop(), 0)
    daemon = Daemon(sys.argv[1], "sluice: 1\n")
    tap.same("with a policy there is no such thing",
             ask(daemon.doors["admin"], None, "GET", "/rlconfig")[0], 404)
    daemon.stop()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
