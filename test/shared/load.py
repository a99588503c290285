"""load.py SECONDS|refused CONNECTIONS BODY HOST:PORT...

So many connections to each ask the same, one request after the other, for so
long; or, however busy the machine is, until each has been refused thirty times
in a row. Prints: allowed denied outage unanswered degraded slowest(ms)
"""
import http.client
import json
import sys
import threading
import time

count, body = int(sys.argv[2]), sys.argv[3]
until_refused = sys.argv[1] == "refused"
until = time.monotonic() + (90 if until_refused else float(sys.argv[1]))
lock = threading.Lock()
counts = {"allowed": 0, "denied": 0, "outage": 0, "unanswered": 0,
          "degraded": 0}
slowest = 0


def word_of(verdict):
    if verdict["allowed"]:
        return "allowed"
    return "outage" if verdict["status"] == 503 else "denied"


def ask(client):
    global slowest
    began = time.monotonic()
    degraded = False
    try:
        client.request("POST", "/v1/check", body)
        verdict = json.loads(client.getresponse().read())
        word, degraded = word_of(verdict), verdict["degraded"]
    except (OSError, http.client.HTTPException, ValueError):
        word = "unanswered"
    took = int((time.monotonic() - began) * 1000)
    with lock:
        counts[word] += 1
        counts["degraded"] += degraded
        slowest = max(slowest, took)
    return word


def run(where):
    client = http.client.HTTPConnection(where, timeout=60)
    in_a_row = 0
    while time.monotonic() < until and not (until_refused and in_a_row >= 30):
        word = ask(client)
        if not until_refused:
            time.sleep(0.005)  # others are at work on this machine, too
        if word == "unanswered":
            break
        in_a_row = in_a_row + 1 if word == "denied" else 0
    client.close()


threads = [threading.Thread(target=run, args=(where,))
           for where in sys.argv[4:] for _ in range(count)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*counts.values(), slowest)
