#!/usr/bin/env python3
"""webhooks_pace.py MODE COUNT HITS URL HTTP,ADMIN... -- queues COUNT messages to
one URL at several daemons, and checks the pace in the log of the destination.

HITS is the log of destination.py. Three organisations share the URL: the pace is
that of the destination. MODE is

    virtual   5/10s on clocks that this program moves, in steps of whole seconds
    late      the same, also while webhooks are between claim and sending
    real      5/2s on the real clock
    long      5/10s on the real clock

It prints TAP.
"""
import random
import sys
import time

import webhooks_client as client
from webhooks_client import check, post

mode, count, hits, url = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
daemons = [word.split(",") for word in sys.argv[5:]]
window = 2 if mode == "real" else 10
orgs = [mode + name for name in ("one", "two", "three")]
NOON = 1794744000  # 2026-11-15T12:00:00Z, where the test has set the clocks


def arrived():
    return client.arrived(hits)


def run_virtual():
    """Returns the virtual seconds that it has taken. A step of `virtual` waits
    until no webhook is on its way. The clock of `late` moves on: by that clock a
    webhook needs whole seconds from its claim to its sending."""
    now = NOON
    deadline = time.monotonic() + 60 + count
    while len(arrived()) < count and time.monotonic() < deadline:
        if mode == "late":
            now += random.choice([1, 1, 1, 3])
            client.set_clocks([admin for _, admin in daemons], now)
            time.sleep(random.choice([0.001, 0.01, 0.1]))
            continue
        now += random.choice([1, 1, 2, 2, 3])
        before = len(arrived())
        client.set_clocks([admin for _, admin in daemons], now)
        # A step may pass before a sender has looked: then it is late.
        for _ in range(20):
            if len(arrived()) > before:
                break
            time.sleep(0.01)
        while any(client.sending(admin) for _, admin in daemons) and \
                time.monotonic() < deadline:
            time.sleep(0.01)
    return now - NOON


def main():
    for org in orgs:
        post(daemons[0][0], "/v1/webhooks/endpoints", {"org": org, "url": url})
    sent = [post(daemons[i % len(daemons)][0], "/v1/webhooks/messages",
                 {"org": orgs[i % 3], "type": "a", "payload": i})["id"]
            for i in range(count)]
    begin = time.monotonic()
    if mode in ("virtual", "late"):
        took = run_virtual()
    else:
        while len(arrived()) < count and \
                time.monotonic() - begin < 60 + 3 * count * window / 5:
            time.sleep(0.1)
        took = time.monotonic() - begin
    rows = arrived()
    check("%d messages arrive, once each" % count,
          sorted(row["id"] for row in rows) == sorted(sent),
          "%d rows of %d ids" % (len(rows), len({r["id"] for r in rows})))
    times = sorted(float(row["timestamp"]) if mode in ("virtual", "late")
                   else row["at"] for row in rows)
    spans = [b - a for a, b in zip(times, times[5:])]
    check("no window of %d s has more than 5" % window,
          min(spans) >= window,
          "6 within %.3f s; %d of %d windows" %
          (min(spans), sum(s < window for s in spans), len(spans)))
    ideal = (count - 1) * window / 5
    if mode != "late":  # its clock does not wait for the machine
        check("and the pace is used", took <= 2 * ideal + 30,
              "%.1f s, ideal %.1f s" % (took, ideal))
    for org in range(3):
        own = [row["body"] for row in rows if int(row["body"]) % 3 == org]
        check("in order, %s" % orgs[org],
              own == sorted(own, key=int), " ".join(own))
    print("# least span of 6: %.4f s; %.1f s for %d messages, ideal %.1f s" %
          (min(spans), took, count, ideal))
    client.finish()


main()
