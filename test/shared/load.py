"""load.py SECONDS CONNECTIONS BODY HOST:PORT...

So many connections to each ask the same, one request after the other, for so
long. Prints: allowed denied outage unanswered degraded slowest(ms)
"""
import http.client
import json
import sys
import threading
import time

seconds, count, body = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
until = time.monotonic() + seconds
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
    return word != "unanswered"


def run(where):
    client = http.client.HTTPConnection(where, timeout=30)
    while time.monotonic() < until and ask(client):
        pass
    client.close()


threads = [threading.Thread(target=run, args=(where,))
           for where in sys.argv[4:] for _ in range(count)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*counts.values(), slowest)
