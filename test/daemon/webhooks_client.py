"""webhooks_client.py -- what the tests of webhooks share: TAP, requests, the log
of destination.py and virtual clocks.
"""
import http.client
import json
import random
import sys
import time

clients = {}
failed = False
number = 0


def check(what, good, detail=""):
    global number, failed
    number += 1
    failed = failed or not good
    if not good:
        print("# %s" % detail)
    print("%s %d - %s" % ("ok" if good else "not ok", number, what), flush=True)


def finish():
    print("1..%d" % number)
    sys.exit(failed)


def request(address, method, path, body=None):
    """Returns the bytes of the answer. One connection per address."""
    if address not in clients:
        clients[address] = http.client.HTTPConnection(address, timeout=60)
    clients[address].request(method, path, body)
    with clients[address].getresponse() as answer:
        text = answer.read()
    if answer.status // 100 != 2:
        raise OSError("%s %s: %d %s" % (method, path, answer.status, text))
    return text


def post(address, path, value):
    return json.loads(request(address, "POST", path, json.dumps(value)))


def arrived(hits):
    with open(hits) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def set_clocks(admins, now):
    """In any order: the clocks of daemons differ for a while."""
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    for admin in random.sample(admins, len(admins)):
        post(admin, "/v1/clock", {"now": text})


def sending(admin):
    """Webhooks that a daemon is sending, and a claim of some."""
    for line in request(admin, "GET", "/metrics").splitlines():
        if line.startswith(b"sluice_webhook_sending "):
            return float(line.split()[1])
    return 0
