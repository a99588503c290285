#!/usr/bin/env python3
"""Take units of a quota from several daemons at once, and count.

    drain_quota.py ORG TAKES HOST:PORT...

So many clients as there are hosts times CLIENTS ask for one unit after another
(or for 1 to COSTS, if that is in the environment), each at its own host, until
TAKES were asked for in all. What is not answered,
or can't be decided just now (503), is asked again after a moment; it is not
counted, since it was not acknowledged. Prints units that were taken, and
takes that were refused or not decided.
"""
import http.client
import json
import os
import random
import sys
import threading
import time

CLIENTS = 4
BATCH = 8
MOST = int(os.environ.get("COSTS", 1))
lock = threading.Lock()


class Tally:
    left = taken = refused = unanswered = 0


def ask(host, org):
    """One batch, each check for itself: answers, or None; and the costs."""
    costs = [random.randint(1, MOST) for _ in range(BATCH)]
    body = json.dumps([{"job": "work", "org": org, "cost": c} for c in costs])
    link = http.client.HTTPConnection(host, timeout=10)
    try:
        link.request("POST", "/v1/check", body)
        return json.loads(link.getresponse().read()), costs
    except (OSError, http.client.HTTPException, ValueError):
        return None, costs
    finally:
        link.close()


def client(host, org, tally):
    while True:
        with lock:
            if tally.left <= 0:
                return
            tally.left -= BATCH
        answers, costs = ask(host, org)
        with lock:
            for answer, cost in zip(answers or [], costs):
                tally.taken += cost if answer["allowed"] else 0
                tally.refused += answer["status"] in (402, 429)
                tally.unanswered += answer["status"] == 503
            if answers is None:
                tally.unanswered += BATCH
        if answers is None:
            time.sleep(0.05)


def main():
    tally = Tally()
    org, tally.left, hosts = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    threads = [threading.Thread(target=client, args=(host, org, tally))
               for host in hosts for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(tally.taken, tally.refused, tally.unanswered)


main()
