#!/usr/bin/python3
"""envoy -- what envoyproxy/ratelimit's README says of its configuration.

Each part has a configuration in their format and requests with what they are
to be answered. All of it is asked of `sluiced --compat envoy-ratelimit`, and
then of a daemon whose policy is what `sluice import envoy-ratelimit` made of the
same files: the two decide alike.

usage: envoy.py SLUICED_TEST SLUICE
"""

import os
import subprocess
import sys
import tempfile

import grpc

import grpcs
from grpcs import SHOULD, Daemon, Request, Response, Tap, request, short

MAX = 4294967295


def limit(unit, count, **more):
    lines = [f"unit: {unit}", f"requests_per_unit: {count}"]
    lines += [f"{key}: {value}" for key, value in more.items()]
    return "{ " + ", ".join(lines) + " }"


SIMPLE = f"""
domain: mongo_cps
descriptors:
  - {{ key: database, value: users, rate_limit: {limit("second", 2)} }}
  - {{ key: database, value: default, rate_limit: {limit("second", 3)} }}
"""

NESTED = f"""
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - {{ key: to_number, rate_limit: {limit("day", 2)} }}
  - {{ key: to_number, rate_limit: {limit("day", 3)} }}
"""

ORDER = f"""
domain: edge_proxy_per_ip
descriptors:
  - {{ key: remote_address, rate_limit: {limit("second", 2)} }}
  - {{ key: remote_address, value: 50.0.0.5, rate_limit: {limit("second", 0)} }}
"""

DEPTH = f"""
domain: depth
descriptors:
  - {{ key: key, value: value, rate_limit: {limit("second", 300)} }}
  - key: deep
    value: value
    descriptors:
      - {{ key: subkey, rate_limit: {limit("second", 300)} }}
"""

UNLIMITED = f"""
domain: internal
descriptors:
  - {{ key: ldap, rate_limit: {{ unlimited: true }} }}
  - {{ key: azure, rate_limit: {limit("minute", 100)} }}
"""

SHADOW = f"""
domain: shadow
descriptors:
  - key: service
    descriptors:
      - {{ key: user, value: user-a, rate_limit: {limit("second", 1)},
          shadow_mode: true }}
      - {{ key: user, value: user-b, rate_limit: {limit("second", 1)} }}
"""

REPLACES = f"""
domain: replaces
descriptors:
  - key: key_1
    value: value_1
    descriptors:
      - {{ key: user, value: bkthomps,
          rate_limit: {limit("second", 1, name="specific_limit")} }}
  - key: key_2
    value: value_2
    descriptors:
      - key: user
        value: bkthomps
        rate_limit:
          replaces: [{{ name: specific_limit }}]
          requests_per_unit: 9
          unit: second
"""

DETAILED = f"""
domain: detailed
descriptors:
  - {{ key: key1, detailed_metric: true, rate_limit: {limit("minute", 1)} }}
  - {{ key: key1, value: value1, rate_limit: {limit("minute", 2)} }}
"""

WILD = f"""
domain: wild
descriptors:
  - {{ key: key1, value: "value*", rate_limit: {limit("minute", 1)} }}
  - {{ key: path, value: /api/*/action, rate_limit: {limit("minute", 2)} }}
  - {{ key: route, value: /api/*/resource/*/action,
      rate_limit: {limit("minute", 3)} }}
  - {{ key: first, value: "a*", rate_limit: {limit("minute", 4)} }}
  - {{ key: first, value: "ab*", rate_limit: {limit("minute", 5)} }}
  - {{ key: first, value: abc, rate_limit: {limit("minute", 6)} }}
  - {{ key: first, rate_limit: {limit("minute", 7)} }}
"""

METRICS = f"""
domain: metrics
descriptors:
  - key: route
    value_to_metric: true
    descriptors:
      - key: http_method
        value_to_metric: true
        descriptors:
          - {{ key: subject_id, rate_limit: {limit("minute", 1)} }}
"""

SHARED = f"""
domain: shared
descriptors:
  - {{ key: files, value: files/*, share_threshold: true,
      rate_limit: {limit("hour", 2)} }}
  - {{ key: apart, value: files/*, share_threshold: false,
      rate_limit: {limit("hour", 1)} }}
  - key: route
    value: api/*
    share_threshold: true
    descriptors:
      - {{ key: method, rate_limit: {limit("minute", 1)} }}
"""

QUOTA = f"""
domain: quota
descriptors:
  - {{ key: model, value: small, quota_mode: true,
      rate_limit: {limit("hour", 1)} }}
  - {{ key: model, value: large, quota_mode: true,
      rate_limit: {limit("hour", 2)} }}
  - {{ key: user, rate_limit: {limit("hour", 3)} }}
"""

NO_WAY_BACK = f"""
domain: back
descriptors:
  - key: a
    value: x
    descriptors:
      - {{ key: only, rate_limit: {limit("hour", 1)} }}
  - key: a
    descriptors:
      - {{ key: b, rate_limit: {limit("hour", 2)} }}
  - {{ key: c, value: x, descriptors: [{{ key: d }}] }}
  - {{ key: c, rate_limit: {limit("hour", 3)} }}
"""

APART = f"""
domain: apart
descriptors:
  - {{ key: a, descriptors: [{{ key: b, rate_limit: {limit("hour", 1)} }}] }}
  - {{ key: a_b, value: c, rate_limit: {limit("hour", 2)} }}
  - {{ key: a, value: b_c, rate_limit: {limit("hour", 3)} }}
  - {{ key: week, rate_limit: {limit("WEEK", 1)} }}
  - {{ key: month, rate_limit: {limit("Month", 1)} }}
  - {{ key: year, rate_limit: {limit("year", 1)} }}
"""

FILES = {
    f"{name}.yaml": text for name, text in (
        ("simple", SIMPLE), ("nested", NESTED), ("order", ORDER),
        ("depth", DEPTH), ("unlimited", UNLIMITED), ("shadow", SHADOW),
        ("replaces", REPLACES), ("detailed", DETAILED), ("wild", WILD),
        ("metrics", METRICS), ("shared", SHARED), ("quota", QUOTA),
        ("back", NO_WAY_BACK), ("apart", APART))
}

DB = "mongo_cps.database_"
NUMBER = "messaging.message_type_marketing.to_number"
RULES = (
    ("each value has its limit", "mongo_cps", [
        ([{"database": "users"}], f"OK {DB}users:2/SECOND=1"),
        ([{"database": "users"}], f"OK {DB}users:2/SECOND=0"),
        ([{"database": "users"}], f"OVER_LIMIT !{DB}users:2/SECOND=0"),
        ([{"database": "default"}], f"OK {DB}default:3/SECOND=2"),
        ([{"database": "other"}], "OK -"),
        ([{"table": "users"}], "OK -")]),
    ("nested descriptors, each number for itself", "messaging", [
        ([{"message_type": "marketing", "to_number": "1"},
          {"to_number": "1"}], f"OK {NUMBER}:2/DAY=1 "
         "messaging.to_number:3/DAY=2"),
        ([{"message_type": "marketing", "to_number": "1"},
          {"to_number": "1"}], f"OK {NUMBER}:2/DAY=0 "
         "messaging.to_number:3/DAY=1"),
        ([{"message_type": "marketing", "to_number": "1"},
          {"to_number": "1"}], f"OVER_LIMIT !{NUMBER}:2/DAY=0 "
         "messaging.to_number:3/DAY=0"),
        ([{"message_type": "marketing", "to_number": "2"}],
         f"OK {NUMBER}:2/DAY=1"),
        ([{"message_type": "other", "to_number": "1"}], "OK -"),
        ([{"message_type": "marketing"}], "OK -")]),
    ("a value goes before a key", "edge_proxy_per_ip", [
        ([{"remote_address": "50.0.0.1"}],
         "OK edge_proxy_per_ip.remote_address:2/SECOND=1"),
        ([{"remote_address": "50.0.0.5"}], "OVER_LIMIT !"),
        ([{"remote_address": "50.0.0.2"}],
         "OK edge_proxy_per_ip.remote_address:2/SECOND=1")]),
    ("the depth must be the same", "depth", [
        ([{"key": "value"}], "OK depth.key_value:300/SECOND=299"),
        ([{"key": "value", "subkey": "x"}], "OK -"),
        ([{"deep": "value", "subkey": "x"}],
         "OK depth.deep_value.subkey:300/SECOND=299"),
        ([{"deep": "value"}], "OK -")]),
    ("unlimited", "internal", [
        ([{"ldap": "x"}, {"azure": "x"}],
         f"OK left={MAX} internal.azure:100/MINUTE=99")]),
    ("shadow limits deny nothing", "shadow", [
        ([{"service": "auth", "user": "user-a"}],
         "OK shadow.service.user_user-a:1/SECOND=0"),
        ([{"service": "auth", "user": "user-a"}],
         "OK shadow.service.user_user-a:1/SECOND=0"),
        ([{"service": "auth", "user": "user-b"}],
         "OK shadow.service.user_user-b:1/SECOND=0"),
        ([{"service": "auth", "user": "user-b"}],
         "OVER_LIMIT !shadow.service.user_user-b:1/SECOND=0")]),
    ("a limit is replaced, and not spent", "replaces", [
        ([{"key_1": "value_1", "user": "bkthomps"},
          {"key_2": "value_2", "user": "bkthomps"}],
         "OK - replaces.key_2_value_2.user_bkthomps:9/SECOND=8"),
        ([{"key_1": "value_1", "user": "bkthomps"}],
         "OK specific_limit:1/SECOND=0"),
        ([{"key_1": "value_1", "user": "bkthomps"}],
         "OVER_LIMIT !specific_limit:1/SECOND=0"),
        ([{"key_1": "value_1", "user": "bkthomps"},
          {"key_2": "value_2", "user": "bkthomps"}],
         "OK - replaces.key_2_value_2.user_bkthomps:9/SECOND=7")]),
    ("a key without a value is each value", "detailed", [
        ([{"key1": "a"}], "OK detailed.key1:1/MINUTE=0"),
        ([{"key1": "b"}], "OK detailed.key1:1/MINUTE=0"),
        ([{"key1": "a"}], "OVER_LIMIT !detailed.key1:1/MINUTE=0"),
        ([{"key1": "value1"}], "OK detailed.key1_value1:2/MINUTE=1")]),
    ("stars", "wild", [
        ([{"key1": "value1"}], "OK wild.key1_value-:1/MINUTE=0"),
        ([{"key1": "value2"}], "OK wild.key1_value-:1/MINUTE=0"),
        ([{"key1": "value"}], "OK wild.key1_value-:1/MINUTE=0"),
        ([{"key1": "value1"}], "OVER_LIMIT !wild.key1_value-:1/MINUTE=0"),
        ([{"key1": "valu"}], "OK -"),
        ([{"path": "/api/123/action"}],
         "OK wild.path_-api---action:2/MINUTE=1"),
        ([{"path": "/api/123/other"}], "OK -"),
        ([{"path": "/api/action"}], "OK -"),
        ([{"route": "/api/v1/resource/123/action"}],
         "OK wild.route_-api---resource---action:3/MINUTE=2"),
        ([{"route": "/api/v1/123/action"}], "OK -"),
        ([{"first": "abc"}], "OK wild.first_abc:6/MINUTE=5"),
        ([{"first": "abd"}], "OK wild.first_a-:4/MINUTE=3"),
        ([{"first": "xyz"}], "OK wild.first:7/MINUTE=6")]),
    ("values do not go into metrics", "metrics", [
        ([{"route": "api", "http_method": "GET", "subject_id": "1"}],
         "OK metrics.route.http_method.subject_id:1/MINUTE=0"),
        ([{"route": "web", "http_method": "GET", "subject_id": "1"}],
         "OK metrics.route.http_method.subject_id:1/MINUTE=0")]),
    ("stars may share", "shared", [
        ([{"files": "files/a"}], "OK shared.files_files--:2/HOUR=1"),
        ([{"files": "files/b"}], "OK shared.files_files--:2/HOUR=0"),
        ([{"files": "files/c"}], "OVER_LIMIT !shared.files_files--:2/HOUR=0"),
        ([{"apart": "files/a"}], "OK shared.apart_files--:1/HOUR=0"),
        ([{"apart": "files/b"}], "OK shared.apart_files--:1/HOUR=0"),
        ([{"route": "api/1", "method": "GET"}],
         "OK shared.route_api--.method:1/MINUTE=0"),
        ([{"route": "api/2", "method": "GET"}],
         "OVER_LIMIT !shared.route_api--.method:1/MINUTE=0"),
        ([{"route": "api/2", "method": "PUT"}],
         "OK shared.route_api--.method:1/MINUTE=0")]),
    ("quotas deny together only", "quota", [
        ([{"model": "small"}, {"model": "large"}],
         "OK quota.model_small:1/HOUR=0 quota.model_large:2/HOUR=1"),
        ([{"model": "small"}, {"model": "large"}],
         "OK !quota.model_small:1/HOUR=0 quota.model_large:2/HOUR=0"),
        ([{"model": "small"}, {"model": "large"}, {"user": "ann"}],
         "OVER_LIMIT !quota.model_small:1/HOUR=0 "
         "!quota.model_large:2/HOUR=0 quota.user:3/HOUR=2"),
        ([{"user": "ann"}], "OK quota.user:3/HOUR=1")]),
    ("there is no way back", "back", [
        ([{"a": "x", "b": "1"}], "OK -"),
        ([{"a": "y", "b": "1"}], "OK back.a.b:2/HOUR=1"),
        ([{"a": "x", "only": "1"}], "OK back.a_x.only:1/HOUR=0"),
        ([{"c": "x"}], "OK -"),
        ([{"c": "y"}], "OK back.c:3/HOUR=2")]),
    ("keys and values are kept apart", "apart", [
        ([{"a_b": "c"}], "OK apart.a_b_c:2/HOUR=1"),
        ([{"a": "b_c"}], "OK apart.a_b_c-2:3/HOUR=2"),
        ([{"a": "x/y", "b": "z"}], "OK apart.a.b:1/HOUR=0"),
        ([{"a": "x", "b": "y/z"}], "OK apart.a.b:1/HOUR=0"),
        ([{"a": "x", "b": ""}], "OK apart.a.b:1/HOUR=0"),
        ([{"a": "", "b": "x"}], "OK apart.a.b:1/HOUR=0"),
        ([{"week": "1"}], "OK apart.week:1/WEEK=0"),
        ([{"month": "1"}], "OK apart.month:1/MONTH=0"),
        ([{"year": "1"}], "OK apart.year:1/YEAR=0")]),
    ("an unknown domain has no limits", "nowhere", [
        ([{"a": "b"}], "OK -")]),
)

BAD = (
    ("a key that is misspelt", "domain: d\ndescriptors:\n  - key: a\n"
     "    rate_limit: { unit: day, requests_per_unitt: 5 }\n",
     "4:30: Unknown key \"requests_per_unitt\" in rate_limit"),
    ("another key", "domain: d\nlimits: 5\n",
     "2:1: Unknown key \"limits\" in the file"),
    ("no domain", "descriptors: []\n", "1:1: A file needs a domain"),
    ("no key", "domain: d\ndescriptors:\n  - value: a\n",
     "3:5: A descriptor needs a key"),
    ("a unit that there is not", "domain: d\ndescriptors:\n  - key: a\n"
     "    rate_limit: { unit: foo, requests_per_unit: 5 }\n",
     "4:25: Unknown unit \"foo\""),
    ("no unit", "domain: d\ndescriptors:\n  - key: a\n"
     "    rate_limit: { requests_per_unit: 5 }\n",
     "4:17: A rate_limit needs a unit"),
    ("unlimited with a unit", "domain: d\ndescriptors:\n  - key: a\n"
     "    rate_limit: { unlimited: true, unit: day }\n",
     "4:42: An unlimited limit has no unit"),
    ("the same twice", "domain: d\ndescriptors:\n  - { key: a, value: b }\n"
     "  - { key: a, value: b }\n",
     "4:5: Duplicate descriptor. The first one is on line 3"),
    ("a limit that replaces itself", "domain: d\ndescriptors:\n  - key: a\n"
     "    rate_limit: { unit: day, requests_per_unit: 1, name: n, "
     "replaces: [{ name: n }] }\n", "4:72: A limit cannot replace itself"),
    ("a replacement without a name", "domain: d\ndescriptors:\n  - key: a\n"
     "    rate_limit: { unit: day, requests_per_unit: 1, "
     "replaces: [{ name: \"\" }] }\n",
     "4:63: An entry of replaces needs a name"),
    ("sharing without a star", "domain: d\ndescriptors:\n"
     "  - { key: a, value: b, share_threshold: true }\n",
     "3:5: share_threshold is valid only for values with a *"),
    ("a negative count", "domain: d\ndescriptors:\n  - key: a\n"
     "    rate_limit: { unit: day, requests_per_unit: -1 }\n",
     "4:49: `requests_per_unit` must be a whole number"),
    ("no list", "domain: d\ndescriptors: { key: a }\n",
     "2:14: `descriptors` must be a list"),
    ("no map", "domain: d\ndescriptors: [a]\n",
     "2:15: Expected a map for a descriptor"),
    ("no YAML", "domain: d\ndescriptors: [\n", "2:14: "),
)

# What a policy does not have is named, with its place and with what to write.
DROPPED = """\
domain: shop
descriptors:
  - key: user
    detailed_metric: true
    shadow_mode: true
    quota_mode: true
    metadata: { team: a }
    descriptors:
      - key: path
        value_to_metric: yes
        rate_limit:
          unit: minute
          requests_per_unit: 5
          name: per path
          replaces: [{ name: gone }, { name: all }, { name: far }, { name: all }]
  - key: all
    detailed_metric: false
    value_to_metric: no
    metadata: {}
    rate_limit: { unlimited: true, requests_per_unit: 3, name: all }
  - key: again
    rate_limit: { unit: day, requests_per_unit: 3, name: all }
  - key: none
    metadata: text
    rate_limit: { unit: day }
"""
FAR = """\
domain: far
descriptors:
  - { key: far, rate_limit: { unit: day, requests_per_unit: 3, name: far } }
"""
WARNINGS = (
    ("4:5: warning: `detailed_metric` is not carried over. Metrics have the "
     "name of the limit", "detailed_metric: false"),
    ("5:5: warning: `shadow_mode` has no effect here",
     "shadow_mode: true beside each rate_limit below"),
    ("6:5: warning: `quota_mode` has no effect here",
     "quota_mode: true beside each rate_limit below"),
    ("7:5: warning: `metadata` is not carried over", "metadata: {}"),
    ("10:9: warning: `value_to_metric` is not carried over",
     "value_to_metric: false"),
    ('14:17: warning: The limit "per path" is named per-path in the policy',
     "name: per-path"),
    ('15:22: warning: No limit of this domain is named "gone"',
     "name: gone in the rate_limit that it replaces"),
    ('15:53: warning: No limit of this domain is named "far"',
     "name: far in the rate_limit that it replaces"),
    ("20:36: warning: `requests_per_unit` has no effect",
     "rate_limit: { unlimited: true }"),
    ('22:58: warning: The limit "all" is named all-2', "name: all-2"),
    ("24:5: warning: `metadata` is not carried over", "metadata: {}"),
    ("25:17: warning: A rate_limit without requests_per_unit lets nothing pass",
     "requests_per_unit: 0"),
)


class Client:
    def __init__(self, where):
        self.should = grpc.insecure_channel(where).unary_unary(
            SHOULD, Request.SerializeToString, Response.FromString)

    def ask(self, domain, descriptors, hits=0):
        return self.should(request(domain, *descriptors, hits=hits),
                           timeout=60)


def test_rules(tap, daemon, how):
    client = Client(daemon.grpc)
    for at, (name, domain, rows) in enumerate(RULES):
        daemon.at(f"1970-01-02T{at:02}:00:00Z")
        got = [short(client.ask(domain, d)) for d, _ in rows]
        tap.same(f"{how}: {name}", got, [want for _, want in rows])
    daemon.at("1970-02-01T00:00:30Z")
    answer = client.ask("wild", [{"key1": "value9"}])
    tap.same(f"{how}: windows end with their unit",
             answer.statuses[0].duration_until_reset.seconds, 30)
    answer = client.ask("wild", [{"key1": "value9"}])
    tap.same(f"{how}: and a denial says when",
             grpcs.headers(answer).get("retry-after"), "30")
    for hits, want in ((3, "OK"), (3, "OVER_LIMIT"), (0, "OVER_LIMIT")):
        got = short(client.ask("wild", [{"first": "q", "-hits": 2 * hits}]))
        tap.same(f"{how}: {2 * hits} hits", got.split()[0], want)


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)


def test_import(tap, program, sluice):
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, FILES)
        made = run(sluice, "import", "envoy-ratelimit", folder)
        tap.same("the configuration becomes a policy", made.returncode, 0)
        path = os.path.join(folder, "policy")
        with open(path, "w", encoding="utf-8") as file:
            file.write(made.stdout)
        tap.same("a good one", run(sluice, "check", path).returncode, 0)
        again = run(sluice, "check", "--print", path).stdout
        printed = os.path.join(folder, "printed")
        with open(printed, "w", encoding="utf-8") as file:
            file.write(again)
        tap.same("that can be printed and read again",
                 run(sluice, "check", "--print", printed).stdout, again)
    for policy, how in ((made.stdout, "imported"), (again, "printed")):
        daemon = Daemon(program, policy)
        test_rules(tap, daemon, how)
        daemon.stop()


def test_bad(tap, sluice):
    for name, text, want in BAD:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bad.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            got = run(sluice, "import", "envoy-ratelimit", folder)
            tap.check(f"{name} is refused, and where",
                      got.returncode == 1 and f"{path}:{want}" in got.stderr,
                      got.stderr)
    with tempfile.TemporaryDirectory() as folder:
        got = run(sluice, "import", "envoy-ratelimit", folder)
        tap.check("a folder with nothing in it", got.returncode == 1 and
                  "has no *.yaml file" in got.stderr, got.stderr)
    got = run(sluice, "import", "envoy-ratelimit", "/nowhere")
    tap.check("none at all", got.returncode == 1 and
              "can't be read" in got.stderr, got.stderr)


def write_folder(folder, files):
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def test_dropped(tap, program, sluice):
    """Nothing is left out without a word; the rest is converted."""
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, {"a.yaml": DROPPED, "b.yaml": FAR})
        path = os.path.join(folder, "a.yaml")
        got = run(sluice, "import", "envoy-ratelimit", folder)
        told = got.stderr.splitlines()
        tap.same("settings without an equivalent do not refuse a file",
                 got.returncode, 0)
        tap.same("each is named once", [
            line.split(":")[1] for line in told if ": warning: " in line],
            [want.split(":")[0] for want, _ in WARNINGS])
        for want, write in WARNINGS:
            at = [i for i, line in enumerate(told)
                  if line.startswith(f"{path}:{want}")]
            tap.same(want, [told[i + 3] for i in at], [f"  write: {write}"])
        tap.check("limits of the domain are replaced, with all that have the "
                  "name", "replaces: [all, all-2]\n" in got.stdout, got.stdout)
        policy = os.path.join(folder, "policy")
        write_folder(folder, {"policy": got.stdout})
        tap.same("the rest is a good policy",
                 run(sluice, "check", policy).returncode, 0)
        got = run(program, "--check", "--compat", "envoy-ratelimit",
                  "--config-dir", folder)
        tap.same("the daemon accepts the same files", got.returncode, 0)
        tap.same("and logs ten warnings",
                 got.stderr.count("configuration warning"), 10)
        tap.check("and where the others are", f'"count":"{len(WARNINGS) - 10}",'
                  f'"run":"sluice import envoy-ratelimit {folder}"' in got.stderr,
                  got.stderr)
        tap.same("as no error", got.stderr.count("configuration refused"), 0)


def left(client, key):
    answer = client.ask("d", [{"key": key}])
    return answer.statuses[0].current_limit.requests_per_unit


def test_reload(tap, program):
    text = "domain: d\ndescriptors:\n  - key: key\n" \
           "    rate_limit: {{ unit: day, requests_per_unit: {} }}\n"
    daemon = Daemon(program, {"a.yaml": text.format(5)})
    client = Client(daemon.grpc)
    tap.same("a file is in force", left(client, "x"), 5)
    daemon.write("a.yaml", text.format(6))
    tap.check("another takes its place when it is there", grpcs.until(
        lambda: left(client, "x") == 6))
    daemon.write("a.yaml", text.format("many"))
    tap.check("a bad one is told", grpcs.until(
        lambda: 'result="failure"} 1' in daemon.tell("/metrics")))
    tap.same("and the old one stays", left(client, "x"), 6)
    daemon.write("b.yaml", text.format(7))
    daemon.write("a.yaml", text.format(8).replace("domain: d", "domain: e"))
    tap.check("files come and change", grpcs.until(
        lambda: left(client, "x") == 7))
    tap.check("what is in force can be seen", "descriptor: [e, key]" in
              daemon.tell("/v1/policy"), daemon.tell("/v1/policy"))
    tap.same("it ends well", daemon.stop(), 0)


def test_flags(tap, program):
    for flags, want in (
            (["--compat", "envoy-ratelimit"], "add --config-dir FOLDER"),
            (["--config-dir", "/tmp"], "add --compat envoy-ratelimit"),
            (["--compat", "kong", "--config-dir", "/tmp"],
             "unknown program"),
            (["--compat", "envoy-ratelimit", "--config-dir", "/tmp", "-c",
              "x"], "remove one of them")):
        got = run(program, "--check", *flags)
        tap.check(" ".join(flags), got.returncode == 2 and want in got.stderr,
                  got.stderr)


def main():
    tap = Tap()
    program, sluice = sys.argv[1], sys.argv[2]
    daemon = Daemon(program, FILES)
    test_rules(tap, daemon, "compat")
    tap.same("it ends", daemon.stop(), 0)
    test_import(tap, program, sluice)
    test_bad(tap, sluice)
    test_dropped(tap, program, sluice)
    test_reload(tap, program)
    test_flags(tap, program)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
