#!/usr/bin/env python3
"""webhooks_many.py COUNT HITS URL HTTP -- COUNT destinations, of which one
hangs: the others do not wait for it.

HITS is the log of destination.py at URL. One message goes to each destination,
twice: first all of them answer, then one hangs and has a queue. The delays of
the others, from the acceptance to the arrival, are compared. It prints TAP.
"""
import statistics
import sys
import time

import webhooks_client as client
from webhooks_client import check

count, hits, url, address = (int(sys.argv[1]), *sys.argv[2:5])


def post(path, value):
    return client.post(address, path, value)


def arrived():
    return client.arrived(hits)


def send(kind):
    """Returns the delays of the messages, in seconds."""
    accepted = {}
    for i in range(count):
        name = post("/v1/webhooks/messages", {
            "org": "many%d" % i, "type": kind, "payload": i})["id"]
        accepted[name] = time.time()
    end = time.monotonic() + 120
    while time.monotonic() < end:
        at = {row["id"]: row["at"] for row in arrived()
              if row["id"] in accepted}
        if len(at) == count:
            break
        time.sleep(0.2)
    check("%d messages arrive, %s" % (count, kind), len(at) == count, len(at))
    return [max(0.0, at[name] - accepted[name]) for name in at]


for i in range(count):
    post("/v1/webhooks/endpoints", {"org": "many%d" % i,
                                    "url": "%s/ok?%d" % (url, i)})
before = send("before")
post("/v1/webhooks/endpoints", {"org": "hangs", "url": url + "/hang"})
for i in range(50):
    post("/v1/webhooks/messages", {"org": "hangs", "type": "a", "payload": i})
end = time.monotonic() + 60
while not any(row["path"] == "/hang" for row in arrived()) and \
        time.monotonic() < end:
    time.sleep(0.1)
after = send("beside")
hung = [row for row in arrived() if row["path"] == "/hang"]
check("one destination hangs, and gets one at a time", len(hung) == 1, len(hung))
a, b = statistics.median(before), statistics.median(after)
check("the others do not wait for it", b <= 2 * a + 0.5,
      "median %.3f s before, %.3f s beside" % (a, b))
print("# median %.4f s before, %.4f s beside one that hangs; longest %.3f and"
      " %.3f s" % (a, b, max(before), max(after)))
client.finish()
