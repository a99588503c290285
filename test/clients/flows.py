#!/usr/bin/python3
"""flows -- the flows of the presets, asked over gRPC.

A request of a flow becomes a descriptor: method, path or job, and who asks.
What the protocol can't say (holds, costs of single limits, tokens, the store's
faults) leaves its flow out, and how many were run is checked: none is lost
unseen. What it can't answer (whole spans, quotas beside the limit) is not
compared.

usage: flows.py SLUICED_TEST PRESETS-FOLDER
"""

import datetime
import glob
import json
import math
import os
import re
import shlex
import sys

import grpc

import grpcs
from grpcs import SHOULD, Daemon, Request, Response, Tap, request

UNITS = {"d": 86400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9,
         "ms": 10**6, "us": 10**3, "ns": 1}
INPUTS = ("user", "org", "plan", "role", "ip")
# Those that can be said over gRPC, of those that there are; and how often a line
# may ask, for each is a round trip.
LEAST, MOST = (50, 3000) if os.environ.get("SL_LONG") else (40, 500)


class NotSayable(Exception):
    """The protocol has no word for it."""


def span(text):
    """A duration in ns."""
    if not re.fullmatch(r"(\d+(d|h|ms|us|ns|m|s))+", text):
        raise NotSayable(text)
    return sum(int(n) * UNITS[u] for n, u in re.findall(
        r"(\d+)(d|h|ms|us|ns|m|s)", text))


def instant(text, now):
    if text.startswith("+"):
        return now + span(text[1:])
    if re.match(r"\d{4}-", text):
        whole, _, rest = text.rstrip("Z").partition(".")
        at = datetime.datetime.fromisoformat(whole + "+00:00")
        return int(at.timestamp()) * 10**9 + int((rest + 9 * "0")[:9])
    return span(text)


def printed(now):
    at = datetime.datetime.fromtimestamp(now // 10**9, datetime.timezone.utc)
    return at.strftime("%Y-%m-%dT%H:%M:%S") + f".{now % 10**9:09}Z"


class Act:
    """METHOD PATH or job NAME, inputs, and what is expected."""

    def __init__(self, line):
        left, _, right = line.partition("->")
        words = shlex.split(left)
        if words[0] == "job":
            self.entries = {"job": words[1]}
        elif words[0].isupper():
            self.entries = {"method": words[0], "path": words[1]}
        else:
            raise NotSayable(words[0])
        self.entries["ip"] = "192.0.2.1"
        self.times, self.every, self.cost = 1, 0, None
        for word in words[2:]:
            self.read_input(word)
        self.expected = shlex.split(right)

    def read_input(self, word):
        key, equals, value = word.partition("=")
        if not equals and re.fullmatch(r"x\d+", word):
            self.times = int(word[1:])
        elif key == "every":
            self.every = span(value)
        elif key == "cost" and value != "0":
            self.cost = int(value)
        elif key in INPUTS or key.startswith("header."):
            self.entries[key] = value
        else:
            raise NotSayable(word)

    def request(self):
        more = {} if self.cost is None else {"-hits": self.cost}
        return request("flow", {**self.entries, **more})


def read_flows(path):
    """(name, steps) of each flow of a file; steps is None if it can't be
    said."""
    flows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = re.sub(r"(^|\s)#.*", "", line).strip()
            if line.startswith("flow "):
                flows.append([shlex.split(line)[1], [], None])
            elif line.startswith("policy "):
                flows[-1][2] = line.split()[1]
            elif line and flows[-1][1] is not None:
                try:
                    step = (line[3:].strip() if line.startswith("at ")
                            else Act(line))
                    flows[-1][1].append((number, step))
                except NotSayable:
                    flows[-1][1] = None
    return flows


class Answer:
    """An answer in the words of a flow."""

    def __init__(self, response):
        self.allowed = response.overall_code == 1
        self.status = response.statuses[0]
        self.headers = grpcs.headers(response)
        self.body = json.loads(response.raw_body) if response.raw_body else {}

    def value(self, key):
        """None: it can't be told."""
        if key.startswith("header."):
            return self.headers.get(key[7:].lower())
        if key.startswith("body."):
            return self.field(key[5:])
        if key == "by":
            return self.status.current_limit.name or None
        if key == "limit":
            return self.headers.get("x-ratelimit-limit")
        if key == "remaining":
            return self.headers.get("x-ratelimit-remaining")
        return None

    def field(self, name):
        value = self.body
        for word in name.split("."):
            value = value.get(word) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return str(value).lower()
        return None if value is None else str(value)


def wrong(answer, word, counts):
    """What is wrong with one expectation; None: nothing."""
    key, equals, want = word.partition("=")
    if not equals:
        good = {"allow": True, "ok": True, "deny": False,
                "never": False}.get(word, word == "200")
        return None if answer.allowed == good else f"{word}: {answer.allowed}"
    if key in ("allowed", "denied"):
        return None if counts[key] == int(want) else f"{word}: {counts}"
    if key == "retry":
        got = answer.headers.get("retry-after")
        want = str(max(1, math.ceil(span(want) / 10**9)))
        return None if got in (None, want) else f"{word}: {got}"
    got = answer.value(key)
    if want == "none":
        return None if got is None else f"{word}: {got}"
    if got is None and not key.startswith("header."):
        return None
    if got is None and answer.allowed:
        return None
    return None if got == want else f"{word}: {got}"


def run(daemon, should, steps):
    """The first thing that is wrong; None: nothing."""
    now = 0
    daemon.tell("/v1/clock?forget=true", '{"now": "1970-01-01T00:00:00Z"}',
                "POST")
    for number, step in steps:
        if isinstance(step, str):
            now = instant(step, now)
            daemon.at(printed(now))
            continue
        counts = {"allowed": 0, "denied": 0}
        for i in range(step.times):
            if i > 0 and step.every:
                now += step.every
                daemon.at(printed(now))
            answer = Answer(should(step.request(), timeout=60))
            counts["allowed" if answer.allowed else "denied"] += 1
        for word in step.expected:
            why = wrong(answer, word, counts)
            if why:
                return f"line {number}: {why}"
    return None


def main():
    tap = Tap()
    ran = 0
    for path in sorted(glob.glob(os.path.join(sys.argv[2], "*.flow"))):
        flows = [f for f in read_flows(path) if f[1] is not None and all(
            isinstance(s, str) or s.times * (1 + bool(s.every)) <= MOST
            for _, s in f[1])]
        for policy in sorted({f[2] for f in flows}):
            daemon = Daemon(sys.argv[1], os.path.join(sys.argv[2], policy))
            channel = grpc.insecure_channel(daemon.grpc)
            should = channel.unary_unary(
                SHOULD, Request.SerializeToString, Response.FromString)
            for name, steps, of in flows:
                if of != policy:
                    continue
                why = run(daemon, should, steps)
                tap.check(f"{os.path.basename(path)}: {name}", why is None,
                          why)
                ran += 1
            channel.close()
            daemon.stop()
    tap.check(f"{ran} flows can be said over gRPC, of {LEAST} at least",
              ran >= LEAST)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
