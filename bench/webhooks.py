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
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request

COUNT = int(os.environ.get("SL_BENCH_COUNT", "20000"))
MANY = int(os.environ.get("SL_BENCH_MANY", "1000000"))
ENDPOINTS = 64
ROUNDS = 3
TICKS = os.sysconf("SC_CLK_TCK")
NEVER = 2 ** 63 - 1
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"order":7,"total":1200,"currency":"EUR"}'

POLICY = """\
sluice: 1
limits: { any: { kind: fixed-window, per: user, rate: 1/s } }
default: [any]
webhooks: { destination: unlimited, allow: [127.0.0.0/8], insecure: true }
"""

CONF = """\
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
    server { listen 127.0.0.1:%(port)d; location / { return 200 ok; } }
}
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


def row(name, value, budget, detail):
    print("%s\t%.3f\t%s\t%s\t%s" % (name, value, budget,
                                    "ok" if value <= budget else "short",
                                    detail), flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file
                    if line.startswith("VmRSS"))


def wait_for(what, code, seconds=120, step=0.05):
    end = time.time() + seconds
    while not code():
        if time.time() > end:
            sys.exit(f"{what}: not within {seconds} s")
        time.sleep(step)


class Bench:
    def __init__(self, sluiced, loop):
        self.dir = tempfile.mkdtemp(prefix="sluice-bench-")
        os.chmod(self.dir, 0o755)
        self.sluiced, self.loop = sluiced, loop
        self.port, self.http, self.admin = (free_port() for _ in range(3))
        self.started = []
        self.write("p.yaml", POLICY)
        self.write("nginx.conf", CONF % {
            "dir": self.dir, "port": self.port,
            "user": "user root;" if os.geteuid() == 0 else ""})
        self.urls = ["http://127.0.0.1:%d/hook/%d" % (self.port, i)
                     for i in range(ENDPOINTS)]
        self.run("nginx", "-c", f"{self.dir}/nginx.conf", "-g", "daemon off;")
        wait_for("nginx", self.nginx_serves)

    def nginx_serves(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def write(self, name, text):
        with open(f"{self.dir}/{name}", "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *words):
        with open(f"{self.dir}/log", "a", encoding="utf-8") as log:
            process = subprocess.Popen(words, cwd=self.dir, stdout=log,
                                       stderr=log)
        self.started.append(process)
        return process

    def end(self, process, how=signal.SIGTERM):
        process.send_signal(how)
        process.wait(60)
        self.started.remove(process)

    def close(self):
        for process in list(self.started):
            self.end(process, signal.SIGKILL)
        shutil.rmtree(self.dir)

    # ---- the daemon

    def serves(self):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/readyz",
                                   timeout=5).read()
            return True
        except OSError:
            return False

    def daemon(self, usage):
        """Returns it, and the seconds until it serves."""
        began = time.monotonic()
        process = self.run(
            self.sluiced, "-c", f"{self.dir}/p.yaml", "--threads", "1",
            "--store", "memory:", "--usage", usage, "--journal", "none",
            "--listen-http", f"127.0.0.1:{self.http}", "--listen-admin",
            f"127.0.0.1:{self.admin}", "--listen-grpc", "off",
            "--listen-resp", "off")
        wait_for("sluiced", self.serves, step=0.01)
        return process, time.monotonic() - began

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
        process, _ = self.daemon(usage)
        first, at, before = self.delivered(), time.monotonic(), cpu(process.pid)
        wait_for("deliveries", lambda: self.delivered() >= COUNT, 600, 0.3)
        wait_for("results", self.is_recorded)
        after, end = cpu(process.pid), time.monotonic()
        self.end(process)
        sent = COUNT - first
        return (after - before) / sent, sent / (end - at)

    def loop_cost(self):
        out = subprocess.run([self.loop, str(COUNT), str(ENDPOINTS)] + self.urls,
                             check=True, capture_output=True, text=True).stdout
        return tuple(float(word) for word in out.split())

    def accept(self, usage):
        """Messages that one client can queue in a second, 16 at a time."""
        import concurrent.futures
        empty(usage)
        fill(usage, self.urls, 0, 0)
        process, _ = self.daemon(usage)
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
        self.end(process)
        return rate

    def backlog(self, usage):
        """Bytes of memory per waiting message, and seconds of a start."""
        empty(usage)
        fill(usage, self.urls, 0, 0)
        process, _ = self.daemon(usage)
        time.sleep(2)
        before = resident(process.pid)
        self.end(process)
        say(f"  writing {MANY} messages")
        fill(usage, self.urls, MANY, 3600)
        process, seconds = self.daemon(usage)
        time.sleep(15)  # a count of all rows, too
        after = resident(process.pid)
        self.end(process)
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
    usages = {"sqlite": f"sqlite:{bench.dir}/books.db"}
    if os.environ.get("SLUICE_TEST_POSTGRES"):
        usages["postgres"] = os.environ["SLUICE_TEST_POSTGRES"]
    for usage in usages.values():  # it makes its tables
        bench.end(bench.daemon(usage)[0])
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
    bench = Bench(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    try:
        measure(bench)
    finally:
        bench.close()


main()
