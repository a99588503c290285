#!/usr/bin/env python3
"""near_cap.py DATABASE CAP HTTP,ADMIN... -- take all units of a quota at all
daemons, one unit per request, two requests at each daemon at once, and read the
leases after each round.

Prints the units that passed, the most that was leased and not recorded, and the
most that all daemons had unspent while less than 1 % was left.
"""
import http.client
import json
import sqlite3
import sys

REQUESTS = 2  # at each daemon at once
BODY = json.dumps({"job": "work", "org": "acme"})

database, cap = sys.argv[1], int(sys.argv[2])
daemons = [word.split(",") for word in sys.argv[3:]]
checks = [http.client.HTTPConnection(http_, timeout=60)
          for http_, _ in daemons for _ in range(REQUESTS)]
admins = [http.client.HTTPConnection(admin, timeout=60)
          for _, admin in daemons]
db = sqlite3.connect(database, timeout=60)


def take():
    """One request on each connection. Returns how many passed."""
    for check in checks:
        check.request("POST", "/v1/check", BODY)
    texts = [check.getresponse().read() for check in checks]
    return sum(text.startswith(b'{"allowed":true') for text in texts)


def unspent():
    """Units that the daemons have leased and not used."""
    total = 0
    for admin in admins:
        admin.request("GET", "/metrics")
        for line in admin.getresponse().read().decode().splitlines():
            if line.startswith("sluice_lease_unspent_units "):
                total += int(line.split()[1])
    return total


passed = leased_most = unspent_most = refused = 0
while refused < 5:
    good = take()
    passed += good
    refused = 0 if good else refused + 1
    used, leased = db.execute(
        "SELECT used, leased FROM usage_counters").fetchone() or (0, 0)
    leased_most = max(leased_most, leased)
    if used + leased > cap - cap // 100:
        unspent_most = max(unspent_most, unspent())
print(passed, leased_most, unspent_most)
