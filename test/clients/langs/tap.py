"""tap -- TAP lines, and daemons for the tests of the clients."""

import atexit
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request


class Tap:
    """Counts cases, and prints TAP."""

    def __init__(self):
        self.cases = self.failed = 0

    def check(self, name, good, note=""):
        self.cases += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.cases} - {name}")
        if not good and note != "":
            print("# " + str(note).replace("\n", "\n# "))
        sys.stdout.flush()

    def same(self, name, got, want):
        self.check(name, got == want, f"got  {got!r}\nwant {want!r}")

    def done(self):
        print(f"1..{self.cases}")
        sys.exit(1 if self.failed or not self.cases else 0)


def skip(why):
    """The program that the tests need is not there."""
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


class Process:
    """A program whose lines are read until it serves. It is stopped at the
    end of the test."""

    def __init__(self, command, ready, env=None, cwd=None):
        """`ready` gets each line of both outputs and returns true when the
        program serves."""
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, cwd=cwd,
            env=dict(os.environ, **(env or {})))
        atexit.register(self.kill)
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if ready(line):
                return
        raise SystemExit("Bail out! " + " ".join(map(str, command))
                         + " does not start:\n" + "".join(lines[-40:]))

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()
            status = None
        self.process.stdout.close()
        return status


class Daemon(Process):
    """sluiced with the http and admin listeners on free ports; or the http
    listener on this port or unix socket. `policy` is a file."""

    def __init__(self, program, policy, *flags, port=0, path=None):
        address = f"unix:{path}" if path else f"127.0.0.1:{port}"
        self.serving = {}
        super().__init__(
            [program, "-c", policy, "--store", "memory:", "--threads", "1",
             "--listen-http", address,
             "--listen-admin", "127.0.0.1:0",
             "--listen-grpc", "off", "--listen-resp", "off",
             "--log-format", "json", *flags], self._ready)
        self.url = "http://" + self.serving["http"]
        self.admin = "http://" + self.serving["admin"]

    def _ready(self, line):
        if line.startswith("{") and '"serving"' in line:
            self.serving = json.loads(line)
            return True
        return False

    def at(self, moment):
        """Set a virtual clock."""
        fetch(self.admin + "/v1/clock", {"now": moment})


def fetch(url, body=None, method=None, headers=None, timeout=60):
    """(status, headers, text). Header names are in lower case."""
    request = urllib.request.Request(
        url, data=json.dumps(body).encode() if body is not None else None,
        method=method, headers=headers or {})
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        found = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, found, answer.read().decode()


def until(what, seconds=60.0):
    """Wait for what another process does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False
