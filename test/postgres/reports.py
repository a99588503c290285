#!/usr/bin/env python3
"""reports.py FIRST COUNT URL...: report COUNT units, one by one, each with a
key of its own, from four threads, to the daemons in turn.

FIRST is where the keys begin, so that the same reports can be sent again.
Prints how many were acknowledged. With --until-all, whatever fails is sent
again until it is not. With --tell, says in files `begun` and `failed` that some
have been acknowledged, and that one was not.
"""
import http.client
import json
import sys
import threading
import time

words = [w for w in sys.argv[1:] if not w.startswith("--")]
until_all = "--until-all" in sys.argv
tells = "--tell" in sys.argv
first, count, urls = int(words[0]), int(words[1]), words[2:]
acknowledged = []
end = time.monotonic() + 120


def send(where, key):
    body = json.dumps({"org": "acme", "limit": "minutes", "amount": 1,
                       "idempotency_key": "k%d" % key})
    try:
        link = http.client.HTTPConnection(where, timeout=60)
        link.request("POST", "/v1/usage", body)
        answer = link.getresponse()
        answer.read()
        return answer.status == 200
    except OSError:
        return False
    except http.client.HTTPException:
        return False


def tell(word):
    if tells:
        with open(word, "w", encoding="ascii"):
            pass


def work(start):
    for key in range(first + start, first + count, 4):
        where = urls[key // 4 % len(urls)]
        good = send(where, key)
        while not good and until_all and time.monotonic() < end:
            time.sleep(0.05)
            good = send(where, key)
        if good:
            acknowledged.append(key)
        if len(acknowledged) == 20:
            tell("begun")
        if not good:
            tell("failed")


threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(len(acknowledged))
