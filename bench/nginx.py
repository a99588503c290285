#!/usr/bin/env python3
"""nginx.py -- the nginx module against limit_req and auth_request.

    nginx.py MODULE SLUICED

Prints one row per budget: name, ratio, budget, ok or short, detail. CPU is that
of the worker (and of sluiced, where it is asked) per request, by its scheduler
time, in rounds that alternate between the candidates; each candidate has its best
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
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/measure")

import procs  # noqa: E402 pylint: disable=wrong-import-position

CLIENTS = 50
KEYS = 500_000    # and requests of a round
ROUNDS = 3
ZONE_MB = 4    # to count keys in
STEP = 4_000
SAMPLE = 400
SECRET = "0123456789abcdef0123456789abcdef"

POLICY = """\
sluice: 1
headers: %s
identity:
  user: [jwt.sub, header.x-user-id]
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
        location = /recipe { RECIPE empty_gif; }
        location = /_auth {
            internal;
            proxy_pass http://sluiced/v1/auth;
            proxy_http_version 1.1;
            proxy_pass_request_body off;
            proxy_set_header Connection "";
            proxy_set_header Content-Length "";
            proxy_set_header X-User-Id $arg_k;
            proxy_set_header X-Original-URI $request_uri;
            proxy_set_header X-Original-Method $request_method;
        }
    }"""

GUIDE = "docs/guide/proxies.md"


def recipe():
    """What the guide writes for auth_request into a location, so that the
    headers of sluiced reach the client."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(f"{folder}/{GUIDE}", encoding="utf-8") as file:
        lines = file.read().split("snippets/sluice.conf\n")[1].split("```")[0]
    return "".join(f"{line}\n            " for line in lines.splitlines()
                   if line.startswith(("auth_request", "add_header"))
                   ).replace("/_sluice", "/_auth")


KEYS_POLICY = """\
sluice: 1
headers: none
limits:
  one: { kind: token-bucket, per: user, rate: 1/hour }
default: [one]
"""

KEYS_CONF = f"""\
limit_req_zone $arg_k zone=req:{ZONE_MB}m rate=1r/m;
    sluice_state zone=one:{ZONE_MB}m;
    sluice_policy %(dir)s/keys.yaml;
    server {{
        listen 127.0.0.1:%(port)d;
        location = /limit_req {{ limit_req zone=req; empty_gif; }}
        location = /module {{
            sluice on; sluice_identity user=$arg_k; empty_gif;
        }}
    }}"""


def say(text):
    print(text, file=sys.stderr, flush=True)


def token():
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    text = part(b'{"alg":"HS256"}') + b"." + part(
        json.dumps({"sub": "ann", "exp": int(time.time()) + 3600}).encode())
    sign = hmac.new(SECRET.encode(), text, hashlib.sha256).digest()
    return (text + b"." + part(sign)).decode()


class Bench:
    """nginx, and sluiced, which two of its locations ask."""

    def __init__(self, folder, module, sluiced):
        self.folder = folder
        folder.write("plain.yaml", POLICY % ("none", SECRET))
        policy = folder.write("headers.yaml",
                              POLICY % ("[x-ratelimit, ietf]", SECRET))
        at = f"{folder.path}/sluiced.sock"
        self.daemon = folder.start(
            "sluiced", [sluiced, "-c", policy, "--store", "memory:",
                        "--listen-http", f"unix:{at}", "--listen-admin", "off",
                        "--listen-grpc", "off", "--listen-resp", "off",
                        "--forward-auth", "original"], at)
        self.worker, self.port = folder.nginx(
            "nginx", CONF.replace("RECIPE", recipe()), load_module(module))

    def uris(self, path, number):
        """A file with the keys of one client. They share none."""
        name = f"{self.folder.path}/uris-{path}-{number}"
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
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
            preexec_fn=procs.pinned((procs.LOAD,)))
            for number in range(CLIENTS)]
        for out in [client.communicate()[0] for client in clients]:
            if f"{each} 2xx" not in out:
                raise procs.Failed(
                    f"/{path}: not all requests passed:\n{out}")

    def load(self, path, headers):
        """CPU of one request in microseconds, of nginx and sluiced."""
        def spent():
            return procs.cpu_ns(self.worker) + procs.cpu_ns(self.daemon)

        before = spent()
        self.ask_all(path, headers)
        return (spent() - before) / KEYS / 1e3


def load_module(module):
    return f"load_module {os.path.abspath(module)};"


def bytes_per_key(module, path):
    """The size of a zone, divided by the keys that it knows: see above."""
    keys = 0
    with procs.Folder() as folder:
        folder.write("keys.yaml", KEYS_POLICY)
        _, port = folder.nginx("nginx", KEYS_CONF, load_module(module))
        client = http.client.HTTPConnection("127.0.0.1", port)

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
    return (ZONE_MB << 20) / (keys - STEP)


def measure(module, sluiced):
    """The CPU of a request by path: the best of all rounds."""
    paths = ["none", "limit_req", "bare", "one", "three", "pass", "auth", "recipe"]
    headers = {"three": ["-H", f"authorization: Bearer {token()}"]}
    best = {}
    with procs.Folder() as folder:
        bench = Bench(folder, module, sluiced)
        for number in range(ROUNDS):
            say(f"nginx: round {number + 1} of {ROUNDS}")
            for path in paths:
                got = bench.load(path, headers.get(path, []))
                best[path] = min(best.get(path, got), got)
    return best


def row(name, ratio, budget, detail):
    word = "-" if budget is None else "ok" if ratio <= budget else "short"
    print(f"{name}\t{ratio:.2f}\t{'-' if budget is None else budget}\t{word}\t"
          f"{detail}", flush=True)


def main():
    module, sluiced = sys.argv[1], os.path.abspath(sys.argv[2])
    best = measure(module, sluiced)

    def compare(name, path, against, budget, what):
        row(name, best[path] / best[against], budget,
            f"{what}: {best[path]:.2f} us, {against} {best[against]:.2f} us of "
            "CPU per request")

    def added(path):
        return best[path] - best["none"]

    compare("nginx without a limit", "none", "limit_req", None,
            "the least that a module can reach")
    compare("nginx one limit", "bare", "limit_req", 0.8, "no headers")
    row("nginx one limit, added", added("bare") / added("limit_req"), None,
        f"to a request without a limit: {added('bare'):.2f} us, limit_req "
        f"{added('limit_req'):.2f} us")
    compare("nginx one limit, headers", "one", "limit_req", None,
            "two dialects of headers")
    compare("nginx three limits", "three", "limit_req", 1.5,
            "a token and two dialects of headers")
    compare("nginx against auth_request", "one", "auth", None,
            "sluiced's CPU is counted")
    compare("nginx sluice_pass", "pass", "recipe", None,
            "sluiced's CPU is counted; the client gets its headers")
    compare("nginx sluice_pass, without them", "pass", "auth", None,
            "auth_request drops the headers")
    say("nginx: bytes per key")
    ours, theirs = (bytes_per_key(module, path)
                    for path in ("module", "limit_req"))
    row("nginx bytes per key", ours / theirs, None,
        f"{ours:.1f} bytes, limit_req {theirs:.1f}")


try:
    main()
except procs.Failed as failed:
    sys.exit(str(failed))
