#!/usr/bin/env python3
"""destination.py PORTFILE LOGFILE [ADDRESS PORT] -- a scripted destination of
webhooks.

Every request is a line of JSON in LOGFILE, written when it has arrived. The
path says what it answers:

    /ok             200
    /status/503     503; ?after=N adds Retry-After: N
    /slow/MS        200, after so long
    /flaky/N        500 for the first N attempts of each message, then 200
    /until/FILE     200 when the file is there; /until/FILE/503: 503
    /hang           nothing, ever
    /stuck          500 to the first request, then nothing, ever
    /once           200 to the first request of a connection; no answer to the
                    second
    /long           200 with an endless body
    /fields         200 with header fields that do not end
    /redirect       302 to /ok
"""
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

log = open(sys.argv[2], "a", buffering=1)
lock = threading.Lock()
seen = {}


class Destination(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        name = self.headers.get("webhook-id", "")
        path, _, query = self.path.partition("?")
        with lock:
            seen[name, path] = seen.get((name, path), 0) + 1
            times = seen[name, path]
            log.write(json.dumps({
                "at": time.time(), "path": self.path, "id": name,
                "times": times, "body": body.decode("utf-8", "replace"),
                "timestamp": self.headers.get("webhook-timestamp"),
                "signature": self.headers.get("webhook-signature"),
                "type": self.headers.get("content-type"),
            }) + "\n")
        words = path.strip("/").split("/")
        status, fields = 200, {}
        if words[0] == "status":
            status = int(words[1])
            if query.startswith("after="):
                fields["Retry-After"] = query[6:]
        elif words[0] == "flaky":
            status = 500 if times <= int(words[1]) else 200
        elif words[0] == "stuck" and "stuck" not in seen:
            seen["stuck"], status = 1, 500
        elif words[0] == "until":
            while not os.path.exists(words[1]):
                time.sleep(0.05)
            status = int(words[2]) if words[2:] else 200
        elif words[0] == "once" and getattr(self, "answered", False):
            self.close_connection = True
            return
        elif words[0] in ("hang", "stuck"):
            threading.Event().wait(600)
        elif words[0] == "slow":
            time.sleep(int(words[1]) / 1000)
        elif words[0] == "redirect":
            status, fields = 302, {"Location": "/ok"}
        elif words[0] == "fields":
            self.send_response(200)
            self.flush_headers()
            try:
                while True:
                    self.wfile.write(b"X-More: and more\r\n" * 100)
            except OSError:
                return
        elif words[0] == "long":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            except OSError:
                return
        self.answered = True
        answer = b"answer %d" % status
        self.send_response(status)
        for field, value in fields.items():
            self.send_header(field, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        pass


where = (sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 3 else \
    ("127.0.0.1", 0)
server = Server(where, Destination)
with open(sys.argv[1] + ".tmp", "w") as file:
    file.write(str(server.server_port))
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
server.serve_forever()
