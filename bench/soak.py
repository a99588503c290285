#!/usr/bin/env python3
"""soak.py -- sluiced under load for long: nothing grows, nothing gets slower.

    soak.py [SECONDS]

80 % of the capacity that it has at the start, by clients that come and go (50
requests each), with a reload every second and ten times as many keys as the
table has room for. In segments; after each, resident memory and the 99th
percentile of latency are taken. SECONDS is 10, or 1,800 if SL_LONG is set.
Prints TAP.

- Memory is flat after the first minute (or the first third of a short run).
- No descriptor is left when the clients are gone.
- In runs of ten minutes and more: all keys were used, and the 99th percentile
  is flat. A short run may share the machine with other tests.
"""
import argparse
import http.client
import json
import os
import signal
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{HERE}/measure", f"{HERE}/rivals"]

# pylint: disable=wrong-import-position
import messages  # noqa: E402
import procs  # noqa: E402
import stats  # noqa: E402

MIB = 1 << 20
ROOM = 35_000  # keys in a table of 1 MiB, and a few more
CHURN = 10 * ROOM
BATCH = 16  # checks in a request

POLICY = """\
sluice: 1
limits:
  second: { kind: token-bucket, per: user, rate: %d/s }
  hour: { kind: fixed-window, per: ip, rate: 1000M/hour }
routes:
  - { match: /api/**, limits: [second, hour] }
default: []
"""

count = failed = 0


def ok(true, name):
    global count, failed
    count += 1
    failed += not true
    print(f"{'ok' if true else 'not ok'} {count} - {name}", flush=True)


def note(text):
    print(f"# {text}", flush=True)


def is_flat(values, share, least):
    """Is the last third not above the first by more than a share of it and
    `least`?"""
    third = max(1, len(values) // 3)
    first = stats.median(values[:third])
    return stats.median(values[-third:]) <= first * (1 + share) + least


def requests():
    names = messages.keys(CHURN)
    for at in range(0, CHURN, BATCH):
        yield messages.post("/v1/check", [
            {"method": "GET", "path": "/api/x", "user": name,
             "ip": f"192.0.2.{number % 250 + 1}"}
            for number, name in enumerate(names[at:at + BATCH])])


class Soak:
    def __init__(self, folder, seconds):
        self.folder, self.seconds = folder, seconds
        self.asks = folder.requests("asks", requests())
        self.pid, at = folder.sluiced(
            "sluiced", POLICY % 1000, ports=("http", "admin"), threads=1,
            memory="1MiB")
        self.port, self.admin = at["http"], at["admin"]
        self.policy = f"{folder.path}/sluiced/policy.yaml"
        self.reloads = self.done = 0
        self.resident, self.p99 = [], []

    def reload(self):
        """Another rate, by SIGHUP."""
        self.reloads += 1
        path = self.folder.write("next.yaml", POLICY % (
            1000 + self.reloads % 7))
        os.replace(path, self.policy)
        os.kill(self.pid, signal.SIGHUP)

    def reloaded(self, result):
        """How many reloads the daemon made, as its metrics say."""
        conn = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=30)
        conn.request("GET", "/metrics")
        text = conn.getresponse().read().decode()
        conn.close()
        name = f'sluice_config_reloads_total{{result="{result}"}} '
        return sum(float(line[len(name):]) for line in text.splitlines()
                   if line.startswith(name))

    def capacity(self):
        got = procs.load("http", self.port, self.asks, seconds=1,
                         per_connection=50)
        return got["requests"] / got["seconds"]

    def idle_descriptors(self):
        """When the connections of a load are closed on this side, too."""
        end, least = time.monotonic() + 20, procs.descriptors(self.pid)
        while time.monotonic() < end:
            least = min(least, procs.descriptors(self.pid))
            time.sleep(0.05)
            if least <= self.base:
                break
        return least

    def run(self):
        rate = 0.8 * self.capacity()
        note(f"{rate * BATCH:.0f} decisions per second")
        time.sleep(0.2)
        self.base = procs.descriptors(self.pid)
        end = time.monotonic() + self.seconds
        length = 10 if self.seconds >= 600 else 1
        while time.monotonic() < end:
            self.segment(rate, length)

    def segment(self, rate, length):
        stop = time.monotonic() + length
        p99 = []
        while time.monotonic() < stop:
            self.reload()
            got = procs.load("http", self.port, self.asks, seconds=1, rate=rate,
                             per_connection=50)
            self.done += got["requests"] * BATCH
            p99.append(got["p99_us"])
        self.resident.append(procs.resident(self.pid) / MIB)
        self.p99.append(stats.median(p99))


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/bench soak",
        description="Keep a daemon under load; memory, latency and descriptors "
        "must not grow.")
    parser.add_argument(
        "seconds", nargs="?", type=float, metavar="SECONDS",
        default=1800 if "SL_LONG" in os.environ else 10,
        help="10 by default, 1800 if SL_LONG is set")
    seconds = parser.parse_args().seconds
    with procs.Folder() as folder:
        soak = Soak(folder, seconds)
        soak.run()
        left = soak.idle_descriptors()
        # After the first minute, or the first third.
        skip = 6 if len(soak.resident) > 60 else len(soak.resident) // 3
        after = soak.resident[skip:]
        note(json.dumps({
            "seconds": seconds, "decisions": soak.done,
            "reloads": soak.reloads, "descriptors": [soak.base, left],
            "resident_mib": [round(value, 1) for value in
                             (soak.resident[0], after[0], after[-1])],
            "p99_us": [soak.p99[skip], soak.p99[-1]]}))
        ok(is_flat(after, 0.02, 1), "memory is flat")
        ok(left <= soak.base, "no descriptor is left")
        ok(soak.reloaded("success") > 0 and soak.reloaded("failure") == 0,
           "the policy was reloaded")
        if seconds >= 600:
            ok(soak.done >= CHURN, f"{CHURN} keys in a table for {ROOM}")
            ok(is_flat(soak.p99[skip:], 0.5, 1000), "latency is flat")
    print(f"1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
