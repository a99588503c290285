#!/usr/bin/env python3
"""scripts/bench rivals -- Sluice and other rate limiters, side by side.

Prints one line per entrant:
    CONTEST: NAME <tab> ratio <tab> - <tab> measured|skipped <tab> detail
The ratio is the entrant's CPU time per decision over Sluice's: above 1, Sluice
needs less.
"""
import argparse
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "measure"))

# pylint: disable=wrong-import-position
import build  # noqa: E402
import contests  # noqa: E402
import report  # noqa: E402


def say(text):
    print(text, file=sys.stderr, flush=True)


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False, timeout=20)
        return (done.stdout + done.stderr).strip().splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "not installed"


def versions():
    found = dict(build.VERSIONS)
    found["Sluice"] = first_line("git", "describe", "--always", "--dirty")
    for name, command in {
            "nginx": ("nginx", "-v"), "HAProxy": ("haproxy", "-v"),
            "Redis": ("redis-server", "--version"),
            "rustc": ("rustc", "--version"), "go": ("go", "version"),
            "java": ("java", "-version"), "node": ("node", "--version"),
    }.items():
        try:
            found[name] = first_line(build.need(command[0]), *command[1:])
        except build.Skip:
            found[name] = "not installed"
    return found


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"processor": model, "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PHYS_PAGES") *
                                os.sysconf("SC_PAGE_SIZE") / 2**30),
            "kernel": platform.release(), "load": os.getloadavg()[0]}


def arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/bench rivals",
        description="Measure Sluice and other rate limiters side by side.")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document")
    parser.add_argument("--quick", action="store_true",
                        help="three short rounds, for a first look")
    parser.add_argument("--contest", action="append", default=[],
                        choices=[*contests.CONTESTS, "over-admission"],
                        help="only this contest; may be repeated")
    parser.add_argument("--rival", action="append", default=[],
                        help="only this rival; may be repeated")
    parser.add_argument("--minutes", type=float, default=60,
                        help="start no contest after so long (default: 60)")
    parser.add_argument("--svg", help="draw the contests into this file")
    parser.add_argument("--markdown", help="write tables into this file")
    return parser.parse_args()


def measure(options):
    rounds, seconds = (3, 0.3) if options.quick else (5, 1.0)
    end = time.monotonic() + options.minutes * 60
    result = {"date": datetime.date.today().isoformat(), "machine": machine(),
              "versions": versions(), "rounds": rounds, "seconds": seconds,
              "contests": {}}
    for name, (title, _) in contests.CONTESTS.items():
        if options.contest and name not in options.contest:
            continue
        if contests.is_late(end):
            say(f"rivals: {name}: skipped, late")
            continue
        rows = contests.run(name, rounds, seconds, options.rival, say)
        result["contests"][name] = {"title": title, "rows": rows}
    if (not options.contest or "over-admission" in options.contest) and \
            not contests.is_late(end):
        result["over_admission"] = contests.over_admission(
            3 * seconds, options.rival, say)
    return result


def main():
    options = arguments()
    # Servers end in `finally` blocks, so a signal must be an exception.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    result = measure(options)
    if options.json:
        json.dump(result, sys.stdout, indent=1)
        print()
    else:
        print(report.lines(result), end="")
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(report.picture(result))
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write(report.tables(result))


main()
