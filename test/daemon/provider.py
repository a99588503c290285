#!/usr/bin/env python3
"""provider.py FILE -- an identity provider with moods, for tests.

Listens on a free port of 127.0.0.1 and writes it to FILE when it does.

  GET  /keys           the keys, as the mood wants
  GET  /token?CLAIM=V  a token signed by the key that was made last; `alg`,
                       `kid`, `life` (seconds) and `key=old` are not claims
  POST /mood/NAME      good, error, hang, large, empty, broken, redirect, drip,
                       close, short (max-age of a second)
  POST /rotate         make another key; the old one is no longer shown
  GET  /asked          when /keys was asked for, a line each, in seconds
"""
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

LARGE = 10 << 20


class Key:
    """One key, and how it is called."""

    def __init__(self, kid, alg):
        self.kid = kid
        self.alg = alg
        if alg.startswith("ES"):
            self.private = ec.generate_private_key(ec.SECP256R1())
            to_jwk = jwt.algorithms.ECAlgorithm.to_jwk
        else:
            self.private = rsa.generate_private_key(65537, 2048)
            to_jwk = jwt.algorithms.RSAAlgorithm.to_jwk
        self.jwk = to_jwk_dict(to_jwk, self.private.public_key())
        self.jwk.update(kid=kid, alg=alg, use="sig")


def to_jwk_dict(to_jwk, public):
    """PyJWT 2.6 can't write keys of curves."""
    if isinstance(public, ec.EllipticCurvePublicKey):
        numbers = public.public_numbers()
        return {
            "kty": "EC",
            "crv": "P-256",
            "x": jwt.utils.base64url_encode(
                numbers.x.to_bytes(32, "big")).decode(),
            "y": jwt.utils.base64url_encode(
                numbers.y.to_bytes(32, "big")).decode(),
        }
    return json.loads(to_jwk(public))


class State:
    """What all requests share."""
    mood = "good"
    made = 0
    keys = []
    asked = []
    lock = threading.Lock()


def rotate():
    State.made += 1
    alg = "ES256" if State.made % 2 == 0 else "RS256"
    State.keys.append(Key("key-%d" % State.made, alg))


def token(query):
    claims = dict(parse_qsl(query))
    key = State.keys[0 if claims.pop("key", "") == "old" else -1]
    life = int(claims.pop("life", "600"))
    head = {"kid": claims.pop("kid", key.kid)}
    now = int(time.time())
    claims.setdefault("iss", "https://id.example/")
    claims.setdefault("aud", "api")
    claims.update(iat=now - 10 + min(life, 0), exp=now + life)
    return jwt.encode(claims, key.private, algorithm=key.alg, headers=head)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def answer(self, status, body, **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def good(self, age=3600):
        body = json.dumps({"keys": [State.keys[-1].jwk]}).encode()
        self.answer(200, body, Cache_Control="public, max-age=%d" % age)

    def drip(self):
        """A byte now and then, for ever."""
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        for _ in range(1000):
            self.wfile.write(b" ")
            time.sleep(0.05)

    def keys(self):
        mood = State.mood
        with State.lock:
            State.asked.append(time.monotonic())
        if mood == "hang":
            time.sleep(30)
        elif mood == "close":
            self.close_connection = True
        elif mood == "drip":
            self.drip()
        elif mood == "error":
            self.answer(500, b"no")
        elif mood == "large":
            self.answer(200, b" " * LARGE)
        elif mood == "empty":
            self.answer(200, b'{"keys":[]}')
        elif mood == "broken":
            self.answer(200, b'{"keys":[{"kty":"RSA","n":"AQ')
        elif mood == "redirect":
            self.answer(302, b"", Location="file:///etc/passwd")
        else:
            self.good(1 if mood == "short" else 3600)

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/keys":
            self.keys()
        elif url.path == "/token":
            self.answer(200, token(url.query).encode())
        elif url.path == "/asked":
            with State.lock:
                lines = "".join("%.3f\n" % at for at in State.asked)
            self.answer(200, lines.encode())
        else:
            self.answer(404, b"")

    def do_POST(self):
        if self.path.startswith("/mood/"):
            State.mood = self.path[len("/mood/"):]
        elif self.path == "/rotate":
            rotate()
        self.answer(200, b"")

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client has given up, which is tested


def main():
    rotate()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with open(sys.argv[1] + ".new", "w", encoding="ascii") as file:
        file.write("127.0.0.1:%d" % server.server_address[1])
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    server.serve_forever()


main()
