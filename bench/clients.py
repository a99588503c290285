#!/usr/bin/python3
"""clients -- what our middleware adds to a request, beside express-rate-limit
and Bucket4j, which count in Redis.

usage: clients.py ROOT SLUICED [APPLICATION...]

Each application answers the same at /bare, /sluice and, if it has one, /rival,
for a thousand users. h2load asks for one after the other, in rounds. Added CPU is that of the
application's process; the detail also has that of sluiced or Redis. p99 is with
few connections: the time that a user waits, not the throughput. Of each the round
with the least counts: what else runs on the machine only adds to it. Rows whose
budget is "-" have no rival.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

REQUESTS = 8_000
CONNECTIONS = 4
USERS = 1000
ROUNDS = 10
WARM_UPS = 4
TICKS = os.sysconf("SC_CLK_TCK")

POLICY = """\
sluice: 1
headers: [ietf]
limits:
  one: { kind: fixed-window, per: user, rate: 1000000000/min }
default: [one]
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


def cpu(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_port(process, port):
    end = time.time() + 300
    while True:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.time() > end or process.poll() is not None:
            raise SystemExit(f"{process.args}: it does not serve")
        time.sleep(0.05)


class Bench:
    def __init__(self, root, sluiced):
        self.root, self.sluiced = root, sluiced
        self.dir = tempfile.mkdtemp(prefix="sluice-bench-")
        self.started = []
        self.env = dict(os.environ, SLUICE_DEADLINE_MS="10000",
                        PYTHONPATH=f"{root}/clients/python")

    def spawn(self, port, *command):
        with open(f"{self.dir}/output", "ab") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=dict(self.env, PORT=str(port)))
        self.started.append(process)
        try:
            wait_for_port(process, port)
        except SystemExit:
            with open(f"{self.dir}/output", encoding="utf-8") as file:
                say(file.read()[-4000:])
            raise
        return process

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.started.remove(process)

    def start(self):
        redis, http = free_port(), free_port()
        with open(f"{self.dir}/policy.yaml", "w", encoding="utf-8") as file:
            file.write(POLICY)
        self.redis = self.spawn(
            redis, "redis-server", "--port", str(redis), "--bind", "127.0.0.1",
            "--save", "", "--dir", self.dir).pid
        self.daemon = self.spawn(
            http, self.sluiced, "-c", f"{self.dir}/policy.yaml", "--store",
            "memory:", "--listen-http", f"127.0.0.1:{http}", "--listen-admin",
            "off", "--listen-grpc", "off", "--listen-resp", "off").pid
        self.env["SLUICE_URL"] = f"http://127.0.0.1:{http}"
        self.env["REDIS_URL"] = f"redis://127.0.0.1:{redis}"

    def done(self):
        for process in list(reversed(self.started)):
            self.stop(process)
        shutil.rmtree(self.dir)

    def uris(self, url):
        name = f"{self.dir}/uris"
        with open(name, "w", encoding="ascii") as file:
            for user in range(USERS):
                file.write(f"{url}?u=user{user * 7919 % USERS}\n")
        return name

    def load(self, url, count):
        """The times of requests, in microseconds."""
        log = f"{self.dir}/log"
        if os.path.exists(log):
            os.remove(log)
        out = subprocess.run(
            ["h2load", "--h1", "-n", str(count), "-c", str(CONNECTIONS), "-t",
             "1", f"--log-file={log}", "-i", self.uris(url)],
            check=True, capture_output=True, text=True).stdout
        with open(log, encoding="ascii") as file:
            rows = [line.split() for line in file]
        # h2load does not see the status in lines without a reason.
        if {row[1] for row in rows} - {"200", "0"} or len(rows) != count:
            raise SystemExit(f"{url}: not all requests passed:\n{out}")
        return [int(row[2]) for row in rows]

    def measure(self, url, pid, server):
        """CPU of a request, of the application and the server; its times."""
        before = cpu(pid), cpu(server)
        times = self.load(url, REQUESTS)
        return ((cpu(pid) - before[0]) / REQUESTS * 1e6,
                (cpu(server) - before[1]) / REQUESTS * 1e6, times)

    def run(self, name, command, paths):
        port = free_port()
        app = self.spawn(port, *[word.replace("PORT", str(port))
                                 for word in command])
        servers = {"bare": self.daemon, "sluice": self.daemon,
                   "rival": self.redis}
        used, p99 = {path: [] for path in paths}, {path: [] for path in paths}
        for path in paths * WARM_UPS:  # for compilers at run time
            self.load(f"http://127.0.0.1:{port}/{path}", REQUESTS)
        for number in range(ROUNDS):
            say(f"{name}: round {number + 1} of {ROUNDS}")
            for path in paths:
                *cpus, times = self.measure(
                    f"http://127.0.0.1:{port}/{path}", app.pid, servers[path])
                used[path].append(cpus)
                p99[path].append(sorted(times)[len(times) * 99 // 100])
        self.stop(app)
        return {path: (*min(used[path]), min(p99[path])) for path in paths}


def applications(root):
    """Name, command, whether it has a rival, and whose rival it is beside."""
    node = ["node", f"{root}/bench/clients/app.js"]
    python = [f"{root}/build/clients/python/bin/python",
              f"{root}/bench/clients/app.py"]
    java = f"{root}/build/clients/bench/bench/clients/java/app/target"
    java = ["java", "-XX:+UseSerialGC", "-cp", f"{java}/app-0.1.0.jar:{java}/lib/*"]
    return [
        ("express", [*node, "express"], True, "express"),
        ("fastify", [*node, "fastify"], False, "express"),
        ("hono", [*node, "hono"], False, "express"),
        ("next", [*node, "next"], False, "express"),
        ("spring", [*java, "bench.Spring", "--server.port=PORT",
                    "--sluice.web.paths=/sluice"], True, "spring"),
        ("camel", [*java, "bench.Camel"], True, "camel"),
        ("fastapi", [*python, "fastapi", "PORT"], False, None),
        ("django", [*python, "django", "PORT"], False, None),
        ("flask", [*python, "flask", "PORT"], False, None),
        ("net/http", [f"{root}/build/clients/bench/go"], False, None),
    ]


RIVALS = {"express": "express-rate-limit", "spring": "Bucket4j",
          "camel": "Bucket4j"}


def print_row(name, figures, added, rival, what):
    ours, bare = added["sluice"], figures["bare"]
    if rival is None:
        ratio, budget, word = (bare + ours) / bare, "-", "-"
        beside = "the ratio is to the bare framework"
    else:
        theirs = added["rival"]
        ratio, budget = ours / theirs if theirs > 0 else float("inf"), 1
        word = "ok" if ratio <= budget else "short"
        beside = f"{RIVALS[rival]} with Redis adds {theirs:.0f} us"
    print(f"clients {name}, {what}\t{ratio:.2f}\t{budget}\t{word}\t"
          f"adds {ours:.0f} us to {bare:.0f} us, {beside}", flush=True)


def report(name, result, rival, of_rival):
    for what, at in (("cpu", 0), ("p99", 2)):
        figures = {path: row[at] for path, row in result.items()}
        added = {"sluice": figures["sluice"] - figures["bare"]}
        if rival:
            added["rival"] = of_rival["rival"][at] - of_rival["bare"][at]
        print_row(name, figures, added, rival, what)
    server = "" if "rival" not in result else \
        f", Redis {result['rival'][1]:.0f} us"
    say(f"{name}: sluiced {result['sluice'][1]:.0f} us of CPU{server}")


def main():
    root, sluiced, *chosen = sys.argv[1:]
    bench = Bench(root, sluiced)
    results = {}
    try:
        bench.start()
        for name, command, has_rival, rival in applications(root):
            if chosen and name not in chosen:
                continue
            paths = ["bare", "sluice"] + ["rival"] * has_rival
            results[name] = bench.run(name, command, paths)
            if rival not in results:
                rival = None
            report(name, results[name], rival, results.get(rival))
    finally:
        bench.done()


main()
