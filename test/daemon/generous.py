#!/usr/bin/env python3
"""generous.py COUNT -- a server that claims to have 1000 units at a cost of 20,
and admits COUNT checks of each caller. Prints its address."""

import collections
import http.server
import json
import sys
import threading

COUNT = int(sys.argv[1])
used = collections.Counter()
lock = threading.Lock()


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        user = json.loads(body)["user"]
        with lock:
            allowed = used[user] < COUNT
            if allowed and self.path == "/v1/check":
                used[user] += 1
            remaining = max(0, 1000 - 20 * used[user])
        limit = {"name": "costly", "kind": "quota", "remaining": remaining,
                 "reset_ms": 1000000000, "mode": "enforce"}
        text = json.dumps({"allowed": allowed, "limits": [limit]},
                          separators=(",", ":")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
print("127.0.0.1:%d" % server.server_port, flush=True)
server.serve_forever()
