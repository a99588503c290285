#!/usr/bin/env python3
"""nginx.py -- the nginx module against limit_req and auth_request.

    nginx.py MODULE SLUICED

Prints one row per budget: name, ratio, budget, ok or short, detail. CPU is that
of the worker (and of sluiced, where it is asked) per request, from /proc, in
rounds that alternate between the candidates; each candidate has its best
round. Every location answers with empty_gif: `return` would skip limit_req.

Bytes per key are the size of a zone, divided by the keys that it knows. Keys
may ask once a minute or less, and more and more of them ask, until one in a
hundred is wrong: a new key that is refused, or an old one that passes again.
"""
import base64
import hashlib
import hmac
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

CLIENTS = 50
KEYS = 500_000    # and requests of a round
ROUNDS = 3
ZONE_MB = 4    # to count keys in
STEP = 4_000
SAMPLE = 400
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

KEYS_POLICY = """\
sluice: 1
headers: none
limits:
  one: { kind: token-bucket, per: user, rate: 1/hour }
default: [one]
"""

KEYS_CONF = """\
load_module %(module)s;
%(user)s
worker_processes 1;
pid %(dir)s/nginx.pid;
error_log %(dir)s/error.log crit;
events { worker_connections 1024; }
http {
    access_log off;
    keepalive_requests 10000000;
    client_body_temp_path %(dir)s/a; proxy_temp_path %(dir)s/b;
    fastcgi_temp_path %(dir)s/c; uwsgi_temp_path %(dir)s/d;
    scgi_temp_path %(dir)s/e;
    limit_req_zone $arg_k zone=req:%(zone)dm rate=1r/m;
    sluice_state zone=one:%(zone)dm;
    sluice_policy %(dir)s/keys.yaml;
    server {
        listen 127.0.0.1:%(port)d;
        location = /limit_req { limit_req zone=req; empty_gif; }
        location = /module {
            sluice on; sluice_identity user=$arg_k; empty_gif;
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


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


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

    def start_nginx(self, conf):
        self.write("nginx.conf", conf % {
            "module": os.path.abspath(self.module), "dir": self.dir,
            "port": self.port, "zone": ZONE_MB,
            "user": "user root;" if os.geteuid() == 0 else ""})
        master = self.spawn("nginx", "-c", f"{self.dir}/nginx.conf", "-g",
                            "daemon off;").pid
        wait_for("nginx", lambda: connects(socket.AF_INET,
                                           ("127.0.0.1", self.port)))
        wait_for("a worker", lambda: children_of(master))
        self.worker = children_of(master)[0]

    def start(self):
        self.write("plain.yaml", POLICY % ("none", SECRET))
        self.write("headers.yaml", POLICY % ("[x-ratelimit, ietf]", SECRET))
        self.daemon = self.spawn(
            self.sluiced, "-c", f"{self.dir}/headers.yaml", "--store",
            "memory:", "--listen-http", f"unix:{self.dir}/sluiced.sock",
            "--listen-admin", "off", "--listen-grpc", "off", "--listen-resp",
            "off", "--forward-auth", "original").pid
        wait_for("sluiced", lambda: connects(
            socket.AF_UNIX, f"{self.dir}/sluiced.sock"))
        self.start_nginx(CONF)

    def stop(self):
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
            process.wait()
        shutil.rmtree(self.dir)

    def uris(self, path, number):
        """A file with the keys of one client. They share none."""
        name = f"{self.dir}/uris-{path}-{number}"
        if not os.path.exists(name):
            with open(name, "w", encoding="ascii") as file:
                for key in range(number, KEYS, CLIENTS):
                    file.write(f"http://127.0.0.1:{self.port}/{path}"
                               f"?k=user{key * 7919 % KEYS}\n")
        return name

    def ask_all(self, path, headers):
        """Every key once. The clients of one h2load would ask for the same."""
        each = KEYS // CLIENTS
        clients = [subprocess.Popen(
            ["h2load", "--h1", "-n", str(each), "-c", "1", "-t", "1", "-i",
             self.uris(path, number), *headers], stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
            for number in range(CLIENTS)]
        for out in [client.communicate()[0] for client in clients]:
            if f"{each} 2xx" not in out:
                sys.exit(f"/{path}: not all requests passed:\n{out}")

    def load(self, path, headers):
        """CPU of one request in microseconds: of nginx, and of sluiced."""
        before = cpu(self.worker), cpu(self.daemon)
        self.ask_all(path, headers)
        return ((cpu(self.worker) - before[0]) / KEYS * 1e6,
                (cpu(self.daemon) - before[1]) / KEYS * 1e6)


def bytes_per_key(module, path):
    """The size of a zone, divided by the keys that it knows: see above."""
    bench = Bench(module, None)
    keys = 0
    try:
        bench.write("keys.yaml", KEYS_POLICY)
        bench.start_nginx(KEYS_CONF)
        client = http.client.HTTPConnection("127.0.0.1", bench.port)

        def is_refused(key):
            client.request("GET", f"/{path}?k=user{key * 7919 % KEYS}")
            answer = client.getresponse()
            answer.read()
            return answer.status != 200

        while True:
            wrong = sum(map(is_refused, range(keys, keys + STEP)))
            keys += STEP
            wrong += sum(not is_refused(i * keys // SAMPLE)
                         for i in range(SAMPLE))
            if wrong > (STEP + SAMPLE) // 100:
                break
        client.close()
    finally:
        bench.stop()
    return (ZONE_MB << 20) / (keys - STEP)


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

    none = sum(best["none"])

    def row(name, path, against, budget, what):
        ratio = sum(best[path]) / sum(best[against])
        word = "-" if budget is None else "ok" if ratio <= budget else "short"
        print(f"{name}\t{ratio:.2f}\t{'-' if budget is None else budget}\t"
              f"{word}\t{what}: {sum(best[path]):.2f} us, "
              f"{against} {sum(best[against]):.2f} us, "
              f"no limit {none:.2f} us of CPU per request; it adds "
              f"{(sum(best[path]) - none) / (sum(best[against]) - none):.2f} of "
              f"what {against} adds", flush=True)

    row("nginx one limit", "bare", "limit_req", 0.8, "no headers")
    row("nginx one limit, headers", "one", "limit_req", None,
        "two dialects of headers")
    row("nginx three limits", "three", "limit_req", 1.5,
        "a token and two dialects of headers")
    row("nginx against auth_request", "one", "auth", None,
        "sluiced's CPU is counted")
    row("nginx sluice_pass", "pass", "auth", None, "sluiced's CPU is counted")
    say("nginx: bytes per key")
    ours, theirs = (bytes_per_key(sys.argv[1], path)
                    for path in ("module", "limit_req"))
    print(f"nginx bytes per key\t{ours / theirs:.2f}\t-\t-\t{ours:.1f} bytes, "
          f"limit_req {theirs:.1f}", flush=True)


main()
