#!/usr/bin/env python3
"""webhooks_many.py COUNT HITS URL HTTP -- COUNT destinations, of which one
hangs: the others do not wait for it.

HITS is the log of destination.py at URL. One message goes to each destination,
twice: first all of them answer, then one hangs and has a queue. The delays of
the others, from the acceptance to the arrival, are compared. It prints TAP.
"""
import http.client
import json
import statistics
import sys
import time

count, hits, url, address = (int(sys.argv[1]), *sys.argv[2:5])
client = http.client.HTTPConnection(address, timeout=60)
failed = False
number = 0


def check(what, good, detail=""):
    global number, failed
    number += 1
    failed = failed or not good
    if not good:
        print("# %s" % detail)
    print("%s %d - %s" % ("ok" if good else "not ok", number, what), flush=True)


def post(path, value):
    client.request("POST", path, json.dumps(value))
    with client.getresponse() as answer:
        return json.loads(answer.read())


def arrived():
    with open(hits) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


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
print("1..%d" % number)
sys.exit(failed)
