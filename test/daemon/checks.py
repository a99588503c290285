#!/usr/bin/env python3
"""checks.py HOST:PORT PATH BODY [FILE] -- post a body again and again, over one
connection, until the daemon is gone or FILE exists.

Prints the answers: those that allow (or, of reports, that acknowledge), and the
requests without an answer, whose outcome is not known.
"""
import http.client
import os
import sys
import time

where, path, body = sys.argv[1:4]
until = sys.argv[4] if len(sys.argv) > 4 else None
good = unknown = number = 0
connection = http.client.HTTPConnection(where, timeout=60)
while not (until and os.path.exists(until)):
    number += 1
    time.sleep(0.002)  # others are at work on this machine, too
    try:
        connection.request("POST", path,
                           body.replace("@", f"{os.getpid()}-{number}"))
        answer = connection.getresponse()
        text = answer.read()
    except (OSError, http.client.HTTPException):
        unknown += 1 # another daemon may have the port from now on
        break
    if path == "/v1/check":
        good += text.startswith(b'{"allowed":true')
    else:
        good += answer.status in (200, 202)
        unknown += b"USAGE_UNKNOWN" in text
print(good, unknown)
