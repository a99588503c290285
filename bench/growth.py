#!/usr/bin/env python3
"""growth.py -- how the cost of a decision grows: with keys, routes, limits per
request, connections and threads.

    growth.py [--quick] [--json FILE] [--svg FOLDER] [WHAT...]

Prints one line per point: WHAT SIZE <tab> value <tab> - <tab> measured <tab>
detail. Each point is the median of several runs. CPU time is that of the
server or of the process, so other work on the machine does not count, though it
empties caches.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{HERE}/measure", f"{HERE}/rivals"]

# pylint: disable=wrong-import-position
import messages  # noqa: E402
import procs  # noqa: E402
import stats  # noqa: E402
import svg  # noqa: E402

EMBEDDED = f"{procs.BUILD}/bench/embedded"
MEMORY_MAX = 6 << 30


def say(text):
    print(text, file=sys.stderr, flush=True)


def take(keys, seconds, threads=1, limits=1):
    """libsluice in a process of its own."""
    processors = procs.PROCESSORS[:threads]
    done = subprocess.run(
        [EMBEDDED, "own", str(keys), str(seconds), str(threads), str(limits)],
        check=True, capture_output=True, text=True, timeout=600,
        preexec_fn=procs.pinned(processors))
    return json.loads(done.stdout)


def medians(runs, call):
    """The median of each member of what `call` returns."""
    turns = [call() for _ in range(runs)]
    return {name: stats.median([turn[name] for turn in turns])
            for name in turns[0]}


def ask(pid, port, path, seconds, connections=64):
    before = procs.cpu_ns(pid)
    got = procs.load("http", port, path, seconds=seconds,
                     connections=connections)
    return {"us": (procs.cpu_ns(pid) - before) / 1000 / got["requests"],
            "rate": got["requests"] / got["seconds"], "p99_us": got["p99_us"]}


# ---- what grows ----

def keys(options):
    sizes = [10 ** n for n in range(3, 8)] + [50_000_000]
    if options.quick:
        sizes = sizes[:4]
    for size in sizes:
        # Names and table, as embedded.c has them.
        if size * (13 + 42) > MEMORY_MAX:
            continue
        got = medians(1 if size > 10 ** 6 else options.runs,
                      lambda: take(size, options.seconds))
        yield size, {"ns": got["ns"], "bytes": got["bytes"]}


POLICY = """\
sluice: 1
limits:
%s
routes:
%s
default: []
"""


def limit_lines(count):
    return "\n".join(f"  l{i}: {{ kind: token-bucket, per: user, "
                     f"rate: 10k/day burst 1M }}" for i in range(count))


def check_requests(folder, path, count=10_000):
    return folder.requests("check", (
        messages.post("/v1/check", {"method": "GET", "path": path(i),
                                    "user": key})
        for i, key in enumerate(messages.keys(count))))


def start_ms(policy):
    """CPU time of sluiced until it listens."""
    with procs.Folder() as folder:
        return procs.cpu_ns(folder.sluiced("sluiced", policy)[0]) / 1e6


def routes(options):
    """The maximum is 10,000 routes, and 1 MB of text."""
    for size in [10, 100, 1000] + ([] if options.quick else [10_000]):
        lines = "\n".join(f"  - {{ match: GET /api/v{i}/things/:id, "
                          "limits: [l0] }" for i in range(size))
        policy = POLICY % (limit_lines(1), lines)
        took = stats.median([start_ms(policy) for _ in range(options.runs)])
        with procs.Folder() as folder:
            pid, at = folder.sluiced("sluiced", policy)
            asks = check_requests(folder,
                                  lambda i: f"/api/v{i % size}/things/7")
            ask(pid, at["http"], asks, options.seconds)
            got = medians(options.runs, lambda: ask(
                pid, at["http"], asks, options.seconds))
        yield size, {"us": got["us"], "start_ms": took}


def limits(options):
    for size in (1, 2, 4, 8, 16):
        got = medians(options.runs, lambda: take(1000, options.seconds,
                                                 limits=size))
        cold = medians(options.runs, lambda: take(
            100_000 if options.quick else 1_000_000 // size, options.seconds,
            limits=size))
        names = ", ".join(f"l{i}" for i in range(size))
        policy = POLICY % (limit_lines(size),
                           f"  - {{ match: /x, limits: [{names}] }}")
        with procs.Folder() as folder:
            pid, at = folder.sluiced("sluiced", policy)
            asks = check_requests(folder, lambda i: "/x")
            ask(pid, at["http"], asks, options.seconds)
            served = medians(options.runs, lambda: ask(
                pid, at["http"], asks, options.seconds))
        yield size, {"ns": got["ns"], "cold_ns": cold["ns"],
                     "us": served["us"]}


def connections(options):
    sizes = [1, 10, 100, 1000] + ([] if options.quick else [5000, 10_000])
    policy = POLICY % (limit_lines(1), "  - { match: /x, limits: [l0] }")
    with procs.Folder() as folder:
        pid, at = folder.sluiced("sluiced", policy)
        asks = check_requests(folder, lambda i: "/x")
        ask(pid, at["http"], asks, options.seconds)
        for size in sizes:
            got = medians(options.runs, lambda: ask(
                pid, at["http"], asks, options.seconds, size))
            yield size, {"us": got["us"], "p99_us": got["p99_us"]}


def threads(options):
    for size in range(1, len(procs.PROCESSORS) + 1):
        got = medians(options.runs, lambda: take(100_000, options.seconds,
                                                 threads=size))
        hot = medians(options.runs, lambda: take(1, options.seconds,
                                                 threads=size))
        yield size, {"ns": got["ns"], "one_key_ns": hot["ns"],
                     "rate": got["decisions"] / got["seconds"]}


WHAT = {
    "keys": (keys, "live keys", [("ns", "ns of CPU per take")], True),
    "routes": (routes, "routes", [("us", "µs of CPU per check"),
                                  ("start_ms", "ms of CPU to start")], True),
    "limits": (limits, "limits per request",
               [("ns", "1,000 keys"), ("cold_ns", "1 M keys in all limits")], False),
    "connections": (connections, "connections",
                    [("us", "µs of CPU per check")], True),
    "threads": (threads, "threads", [("ns", "100,000 keys"),
                                     ("one_key_ns", "one key")], False),
}


def draw(what, points):
    _, x_name, series, log_x = WHAT[what]
    unit = "µs" if series[0][0] == "us" else "ns of CPU per decision"
    return svg.curves(
        f"Cost of a decision by {x_name}", x_name, unit,
        [(name, [(size, values[member]) for size, values in points])
         for member, name in series], log_x=log_x)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench growth")
    parser.add_argument("what", nargs="*", help=", ".join(WHAT))
    parser.add_argument("--quick", action="store_true",
                        help="small sizes, short runs")
    parser.add_argument("--json", help="write the points into this file")
    parser.add_argument("--svg", help="draw into this folder")
    parser.add_argument("--minutes", type=float, default=30,
                        help="start no part after so long (default: 30)")
    options = parser.parse_args()
    for what in options.what:
        if what not in WHAT:
            parser.error(f"no part '{what}'; the parts are: {', '.join(WHAT)}")
    options.runs, options.seconds = (1, 0.2) if options.quick else (5, 0.5)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    end, result = time.monotonic() + options.minutes * 60, {}
    for what in options.what or WHAT:
        if time.monotonic() > end:
            say(f"growth: {what}: skipped, late")
            continue
        say(f"growth: {what}")
        result[what] = points = []
        for size, values in WHAT[what][0](options):
            points.append((size, values))
            text = ", ".join(f"{name} {stats.number(value)}"
                             for name, value in values.items())
            first = stats.number(next(iter(values.values())))
            print(f"{what} {size}\t{first}\t-\tmeasured\t{text}", flush=True)
        if options.svg:
            os.makedirs(options.svg, exist_ok=True)
            with open(f"{options.svg}/{what}.svg", "w",
                      encoding="utf-8") as file:
                file.write(draw(what, points))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
