#!/usr/bin/env python3
"""nginx.py -- the nginx module against limit_req and auth_request.

    nginx.py MODULE SLUICED

Prints one row per budget: name, ratio, budget, ok or short, detail. CPU is that
of the worker (and of sluiced, where it is asked) per request, from /proc, in
rounds that alternate between the candidates; each candidate has its best
round. Every location answers with empty_gif: `return` would skip limit_req.
"""
import base64
import hashlib
import hmac
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

KEYS = 500_000
REQUESTS = 500_000
ROUNDS = 3
TICKS = os.sysconf("SC_CLK_TCK")
SECRET = "0123456789abcdef0123456789abcdef"

POLICY = """\
sluice: 1
headers: %s
identity:
  user: [jwt.sub]
  jwt: { secret: "%s", algorithms: [HS256] }
limits:
  one: { kind: token-bucket, per: user, rate: 1000000/s }
  two: { kind: token-bucket, per: user, rate: 2000000/s }
  all: { kind: fixed-window, per: [], rate: 100000000/min }
routes:
  - { match: /three, limits: [one, two, all] }
default: [one]
"""

CONF = """\
load_module %(module)s;
%(user)s
worker_processes 1;
pid %(dir)s/nginx.pid;
error_log %(dir)s/error.log;
events { worker_connections 1024; }
http {
    access_log off;
    keepalive_requests 10000000;
    client_body_temp_path %(dir)s/a; proxy_temp_path %(dir)s/b;
    fastcgi_temp_path %(dir)s/c; uwsgi_temp_path %(dir)s/d;
    scgi_temp_path %(dir)s/e;
    limit_req_zone $arg_k zone=req:64m rate=1000000r/s;
    sluice_state zone=one:64m;
    sluice_policy %(dir)s/plain.yaml;
    upstream sluiced { server unix:%(dir)s/sluiced.sock; keepalive 64; }
    server {
        listen 127.0.0.1:%(port)d;
        location = /none { empty_gif; }
        location = /limit_req { limit_req zone=req burst=1000; empty_gif; }
        location = /bare { sluice on; sluice_identity user=$arg_k; empty_gif; }
        location = /one {
            sluice_policy %(dir)s/headers.yaml;
            sluice on; sluice_identity user=$arg_k; empty_gif;
        }
        location = /three {
            sluice_policy %(dir)s/headers.yaml; sluice on; empty_gif;
        }
        location = /pass {
            sluice_pass unix:%(dir)s/sluiced.sock timeout=5s;
            sluice on; sluice_identity user=$arg_k; empty_gif;
        }
        location = /auth { auth_request /_auth; empty_gif; }
        location = /_auth {
            internal;
            proxy_pass http://sluiced/v1/auth;
            proxy_http_version 1.1;
            proxy_pass_request_body off;
            proxy_set_header Connection "";
            proxy_set_header Content-Length "";
            proxy_set_header X-Original-URI $request_uri;
            proxy_set_header X-Original-Method $request_method;
        }
    }
}
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


def token():
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    text = part(b'{"alg":"HS256"}') + b"." + part(
        json.dumps({"sub": "ann", "exp": int(time.time()) + 3600}).encode())
    sign = hmac.new(SECRET.encode(), text, hashlib.sha256).digest()
    return (text + b"." + part(sign)).decode()


def cpu(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wait_for(what, code):
    end = time.time() + 30
    while not code():
        if time.time() > end:
            sys.exit(f"{what}: not within 30 s")
        time.sleep(0.05)


def connects(family, address):
    with socket.socket(family) as s:
        return s.connect_ex(address) == 0


class Bench:
    def __init__(self, module, sluiced):
        self.dir = tempfile.mkdtemp(prefix="sluice-bench-")
        os.chmod(self.dir, 0o755)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.module, self.sluiced = module, sluiced
        self.started = []

    def write(self, name, text):
        with open(f"{self.dir}/{name}", "w", encoding="utf-8") as file:
            file.write(text)

    def spawn(self, *command):
        with open(f"{self.dir}/output", "ab") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out)
        self.started.append(process)
        return process

    def start(self):
        self.write("plain.yaml", POLICY % ("none", SECRET))
        self.write("headers.yaml", POLICY % ("[x-ratelimit, ietf]", SECRET))
        self.write("nginx.conf", CONF % {
            "module": os.path.abspath(self.module), "dir": self.dir,
            "port": self.port,
            "user": "user root;" if os.geteuid() == 0 else ""})
        self.daemon = self.spawn(
            self.sluiced, "-c", f"{self.dir}/headers.yaml", "--store",
            "memory:", "--listen-http", f"unix:{self.dir}/sluiced.sock",
            "--listen-admin", "off", "--listen-grpc", "off", "--listen-resp",
            "off", "--forward-auth", "original").pid
        wait_for("sluiced", lambda: connects(
            socket.AF_UNIX, f"{self.dir}/sluiced.sock"))
        master = self.spawn("nginx", "-c", f"{self.dir}/nginx.conf", "-g",
                            "daemon off;").pid
        wait_for("nginx", lambda: connects(socket.AF_INET,
                                           ("127.0.0.1", self.port)))
        children = f"/proc/{master}/task/{master}/children"
        with open(children, encoding="ascii") as file:
            self.worker = int(file.read().split()[0])

    def stop(self):
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
            process.wait()
        shutil.rmtree(self.dir)

    def uris(self, path):
        name = f"{self.dir}/uris-{path}"
        if not os.path.exists(name):
            with open(name, "w", encoding="ascii") as file:
                for key in range(KEYS):
                    file.write(f"http://127.0.0.1:{self.port}/{path}"
                               f"?k=user{key * 7919 % KEYS}\n")
        return name

    def load(self, path, headers):
        """CPU of one request in microseconds: of nginx, and of sluiced."""
        before = cpu(self.worker), cpu(self.daemon)
        out = subprocess.run(
            ["h2load", "--h1", "-n", str(REQUESTS), "-c", "64", "-t", "1", "-i",
             self.uris(path), *headers], check=True, capture_output=True,
            text=True).stdout
        if f"{REQUESTS} 2xx" not in out:
            sys.exit(f"/{path}: not all requests passed:\n{out}")
        return ((cpu(self.worker) - before[0]) / REQUESTS * 1e6,
                (cpu(self.daemon) - before[1]) / REQUESTS * 1e6)


def main():
    bench = Bench(sys.argv[1], sys.argv[2])
    paths = ["none", "limit_req", "bare", "one", "three", "pass", "auth"]
    best = {}
    try:
        bench.start()
        headers = {"three": ["-H", f"authorization: Bearer {token()}"]}
        for number in range(ROUNDS):
            say(f"nginx: round {number + 1} of {ROUNDS}")
            for path in paths:
                got = bench.load(path, headers.get(path, []))
                best[path] = min(best.get(path, got), got, key=sum)
    finally:
        bench.stop()

    def row(name, path, against, budget, what):
        ratio = sum(best[path]) / sum(best[against])
        word = "-" if budget is None else "ok" if ratio <= budget else "short"
        print(f"{name}\t{ratio:.2f}\t{'-' if budget is None else budget}\t"
              f"{word}\t{what}: {sum(best[path]):.2f} us, "
              f"{against} {sum(best[against]):.2f} us, "
              f"no limit {sum(best['none']):.2f} us of CPU per request",
              flush=True)

    row("nginx one limit", "bare", "limit_req", 0.8, "no headers")
    row("nginx one limit, headers", "one", "limit_req", None,
        "two dialects of headers")
    row("nginx three limits", "three", "limit_req", 1.5,
        "a token and two dialects of headers")
    row("nginx against auth_request", "one", "auth", None,
        "sluiced's CPU is counted")
    row("nginx sluice_pass", "pass", "auth", None, "sluiced's CPU is counted")


main()
