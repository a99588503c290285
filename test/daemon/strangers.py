"""strangers.py HOST:PORT COUNT -- tokens of unknown keys: COUNT requests
on one connection, each with another key id. Prints the statuses and how often
each came, and how many seconds it took."""
import base64
import collections
import http.client
import json
import sys
import time


def part(value):
    text = json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


where, count = sys.argv[1], int(sys.argv[2])
conn = http.client.HTTPConnection(where, timeout=30)
payload = part({"sub": "ann", "exp": 1 << 40})
signature = "A" * 342
statuses = collections.Counter()
began = time.monotonic()
for i in range(count):
    head = part({"alg": "RS256", "kid": "unknown-%d" % i})
    token = "%s.%s.%s" % (head, payload, signature)
    conn.request("GET", "/v1/auth", headers={
        "X-Original-URI": "/x",
        "X-Original-Method": "GET",
        "X-Forwarded-For": "203.0.113.%d" % (i % 250),
        "Authorization": "Bearer " + token})
    answer = conn.getresponse()
    answer.read()
    statuses[answer.status] += 1
print(dict(statuses), "%.3f" % (time.monotonic() - began))
