#!/usr/bin/env python3
"""webhooks.py -- the sender of webhooks against a plain loop of libcurl.

    webhooks.py SLUICED LOOP

Prints one row per budget: name, ratio, budget, ok or short, detail. The
destination is an nginx that answers 200. The messages are written into the
database before the daemon starts, so its processor time, from /proc, is that of
sending alone: claims, signatures, requests and results. LOOP posts the same
body to the same URLs, as many at a time, without a queue. They take turns; each
has its best round. PostgreSQL is that of SLUICE_TEST_POSTGRES.
"""
import json
import os
import sqlite3
import subprocess
import sys
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/measure")

import procs  # noqa: E402 pylint: disable=wrong-import-position

COUNT = int(os.environ.get("SL_BENCH_COUNT", "20000"))
MANY = int(os.environ.get("SL_BENCH_MANY", "1000000"))
ENDPOINTS = 64
ROUNDS = 3
NEVER = 2 ** 63 - 1
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"order":7,"total":1200,"currency":"EUR"}'

POLICY = """\
sluice: 1
limits: { any: { kind: fixed-window, per: user, rate: 1/s } }
default: [any]
webhooks: { destination: unlimited, allow: [127.0.0.0/8], insecure: true }
"""

DESTINATION = """\
server { listen 127.0.0.1:%(port)d; location / { return 200 ok; } }"""


def say(text):
    print(text, file=sys.stderr, flush=True)


def row(name, value, budget, detail):
    print("%s\t%.3f\t%s\t%s\t%s" % (name, value, budget,
                                    "ok" if value <= budget else "short",
                                    detail), flush=True)


class Bench:
    def __init__(self, folder, sluiced, loop):
        self.folder, self.sluiced, self.loop = folder, sluiced, loop
        self.policy = folder.write("p.yaml", POLICY)
        _, port = folder.nginx("destination", DESTINATION,
                               processors=procs.PROCESSORS)
        self.http, self.admin = procs.free_port(), procs.free_port()
        self.urls = ["http://127.0.0.1:%d/hook/%d" % (port, i)
                     for i in range(ENDPOINTS)]

    # ---- the daemon

    def serves(self):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/readyz",
                                   timeout=5).read()
            return True
        except OSError:
            return False

    def daemon(self, usage):
        """Returns its pid, and the seconds until it serves."""
        began = time.monotonic()
        pid = self.folder.start(
            "sluiced", [self.sluiced, "-c", self.policy, "--threads", "1",
                        "--store", "memory:", "--usage", usage, "--journal",
                        "none", "--listen-http", f"127.0.0.1:{self.http}",
                        "--listen-admin", f"127.0.0.1:{self.admin}",
                        "--listen-grpc", "off", "--listen-resp", "off"],
            self.admin, processors=procs.PROCESSORS)
        procs.wait_for("sluiced", self.serves, 120, 0.01)
        return pid, time.monotonic() - began

    def metric(self, name):
        text = urllib.request.urlopen(
            f"http://127.0.0.1:{self.admin}/metrics").read().decode()
        return next(float(line.split()[1]) for line in text.splitlines()
                    if line.startswith(name + " "))

    def delivered(self):
        return self.metric('sluice_webhook_attempts_total{class="success"}')

    def is_recorded(self):
        return self.metric("sluice_webhook_sending") == 0

    # ---- what is measured

    def send(self, usage):
        """Processor time of a delivery, and deliveries a second."""
        empty(usage)
        fill(usage, self.urls, COUNT, 0)
        pid, _ = self.daemon(usage)
        first, at = self.delivered(), time.monotonic()
        before = procs.cpu_ns(pid)
        procs.wait_for("deliveries", lambda: self.delivered() >= COUNT, 600,
                       0.3)
        procs.wait_for("results", self.is_recorded, 120)
        after, end = procs.cpu_ns(pid), time.monotonic()
        self.folder.end(pid)
        sent = COUNT - first
        return (after - before) / 1e9 / sent, sent / (end - at)

    def loop_cost(self):
        out = subprocess.run([self.loop, str(COUNT), str(ENDPOINTS)] + self.urls,
                             check=True, capture_output=True, text=True).stdout
        return tuple(float(word) for word in out.split())

    def accept(self, usage):
        """Messages that one client can queue in a second, 16 at a time."""
        import concurrent.futures
        empty(usage)
        fill(usage, self.urls, 0, 0)
        pid, _ = self.daemon(usage)
        body = json.dumps({"org": "org1", "type": "order.paid",
                           "payload": json.loads(BODY)}).encode()

        def post(_):
            return urllib.request.urlopen(
                f"http://127.0.0.1:{self.http}/v1/webhooks/messages",
                body).status

        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            assert set(pool.map(post, range(2000))) == {202}
        rate = 2000 / (time.monotonic() - began)
        self.folder.end(pid)
        return rate

    def backlog(self, usage):
        """Bytes of memory per waiting message, and seconds of a start."""
        empty(usage)
        fill(usage, self.urls, 0, 0)
        pid, _ = self.daemon(usage)
        time.sleep(2)
        before = procs.resident(pid)
        self.folder.end(pid)
        say(f"  writing {MANY} messages")
        fill(usage, self.urls, MANY, 3600)
        pid, seconds = self.daemon(usage)
        time.sleep(15)  # a count of all rows, too
        after = procs.resident(pid)
        self.folder.end(pid)
        return max(0, after - before) / MANY, seconds


def sqlite_run(usage, statements):
    db = sqlite3.connect(usage.split(":", 1)[1], timeout=60)
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


def psql(usage, text):
    subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", usage],
                   input="SET search_path TO sluice;" + text, text=True,
                   check=True)


TABLES = ["webhook_attempts", "webhook_deliveries", "webhook_messages",
          "webhook_keys", "webhook_destinations", "webhook_endpoints"]


def empty(usage):
    statements = [f"DELETE FROM {name}" for name in TABLES]
    if usage.startswith("sqlite:"):
        sqlite_run(usage, statements)
    else:
        psql(usage, "TRUNCATE " + ", ".join(TABLES) + ";")


def fill(usage, urls, count, later):
    """`count` messages that are due `later` seconds from now."""
    now = int(time.time() * 1e9)
    due = now + int(later * 1e9)
    statements = [
        "DELETE FROM webhook_endpoints"] + [
        "INSERT INTO webhook_endpoints(id, org, url, events, metadata, secret,"
        " old_secret, old_until, enabled, contact, reason, failures,"
        " not_before, next, created, updated) VALUES('ep_%d', 'org%d', '%s',"
        " '[\"*\"]', '{}', '%s', '', 0, 1, 0, '', 0, 0, %d, %d, %d)"
        % (i, i, url, SECRET, due if count else NEVER, now, now)
        for i, url in enumerate(urls)]
    is_sqlite = usage.startswith("sqlite:")
    series = ("WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s"
              f" WHERE n < {count}) " if is_sqlite else
              f"WITH s AS (SELECT n FROM generate_series(1, {count}) n) ")
    number = ("printf('%08d', n)" if is_sqlite else
              "lpad(CAST(n AS TEXT), 8, '0')")
    if count:
        statements += [
            "INSERT INTO webhook_messages(id, org, type, payload, at, held) "
            + series + f"SELECT 'msg_' || {number}, 'org' || (n % {len(urls)}),"
            f" 'order.paid', '{BODY}', {now}, 0 FROM s",
            "INSERT INTO webhook_deliveries(message, endpoint, org, state,"
            " tries, due, lease) " + series
            + f"SELECT 'msg_' || {number}, 'ep_' || (n % {len(urls)}), 'org' ||"
            f" (n % {len(urls)}), 0, 0, {due}, 0 FROM s"]
    if is_sqlite:
        sqlite_run(usage, statements)
    else:
        psql(usage, ";".join(statements) + "; ANALYZE;")


def measure(bench):
    usages = {"sqlite": f"sqlite:{bench.folder.path}/books.db"}
    if os.environ.get("SLUICE_TEST_POSTGRES"):
        usages["postgres"] = os.environ["SLUICE_TEST_POSTGRES"]
    for usage in usages.values():  # it makes its tables
        bench.folder.end(bench.daemon(usage)[0])
    best = {}
    for i in range(ROUNDS):
        say(f"  round {i + 1} of {ROUNDS}")
        plain, seconds = bench.loop_cost()
        found = {"loop": (plain, COUNT / seconds)}
        for name, usage in usages.items():
            found[name] = bench.send(usage)
        for name, value in found.items():
            best[name] = min(best.get(name, value), value)
    loop = best["loop"]
    for name, usage in usages.items():
        own = best[name]
        row(f"webhooks-{name}", own[0] / loop[0],
            2.5 if name == "sqlite" else 6,
            "%.0f us of CPU and %.0f a second; loop %.0f us and %.0f a second;"
            " %.0f queued a second" %
            (own[0] * 1e6, own[1], loop[0] * 1e6, loop[1], bench.accept(usage)))
    size, start = bench.backlog(usages["sqlite"])
    row("webhooks-memory", size / 1024, 1,
        "KB per message of %d that wait" % MANY)
    row("webhooks-start", start / 2, 1, "%.2f s with %d messages that wait,"
        " limit 2 s" % (start, MANY))


def main():
    with procs.Folder() as folder:
        measure(Bench(folder, os.path.abspath(sys.argv[1]),
                      os.path.abspath(sys.argv[2])))


try:
    main()
except procs.Failed as failed:
    sys.exit(str(failed))
