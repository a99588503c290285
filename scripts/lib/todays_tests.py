#!/usr/bin/env python3
"""todays_tests.py -- prints the tests that a stage of scripts/test runs today.

    todays_tests.py asan|clients|memcheck|plain|tsan BUILD DAY

Tests that ask the same twice take turns by DAY, the number of the day, so that
a usual run is short. One name a line. What is left out where, and why, is at
the top of stages.sh.
"""
import json
import os
import subprocess
import sys

# Programs that asan runs shorter, with SL_SHORT or SL_PROP_STEPS.
SHORTER = {"daemon-addresses", "daemon-flows", "daemon-keys",
           "daemon-registered", "no_memory", "policy-faults", "server-grpc",
           "table-flood", "table-history"}
NOT_IN_ASAN = {"again", "clients", "ops", "proxies", "style"}
NOT_IN_PLAIN = {"clients", "daemon", "dynamo", "redis", "shared"}
REPEATS = {"bad", "cli", "flow", "unit"}  # asan runs all of them
PLAIN_SHARES = 3  # of these
MEMCHECK_SHARES = 4
MEMCHECK_FOLDERS = ("base", "core", "wire", "policy", "engine")
TOO_LONG_IN_MEMCHECK = {"no_memory", "zoneinfo", "yaml_bombs"}


class Test:
    def __init__(self, entry):
        self.name = entry["name"]
        self.program = entry["cmd"][0]
        self.suites = {suite.split(":")[-1] for suite in entry["suite"]}


def share(tests, day, shares):
    """Another share of them each day."""
    return tests[day % shares::shares]


def other_database(tests, day):
    """The names of the daemon programs that run with SQLite and with another
    database: of each, the run of tomorrow."""
    names = {test.name for test in tests}
    left = set()
    for name in names:
        first, _, database = name.rpartition("-")
        if first in names and first.startswith("daemon-") and \
                database in ("leased", "postgres"):
            left.add(name if day % 2 else first)
    return left


def turns(tests):
    """Those of which asan runs a half, and plain the other half."""
    return [test for test in tests if "conform" in test.suites]


def asan(tests, day):
    left = other_database(tests, day) | \
        {test.name for test in share(turns(tests), day, 2)}
    return [test for test in tests
            if test.name not in left and not test.suites & NOT_IN_ASAN]


def plain(tests, day):
    again = [test for test in tests if "again" in test.suites]
    repeats = [test for test in tests
               if test.suites & REPEATS and "again" not in test.suites]
    left = {test.name for test in turns(tests)} - \
        {test.name for test in share(turns(tests), day, 2)}
    left |= {test.name for test in again} - \
        {test.name for test in share(again, day, 2)}
    left |= {test.name for test in repeats} - \
        {test.name for test in share(repeats, day, PLAIN_SHARES)}
    left |= {test.name for test in tests
             if test.suites & NOT_IN_PLAIN and "again" not in test.suites}
    return [test for test in tests
            if test.name in SHORTER or test.name not in left]


def tsan(tests, day):
    """All with threads of their own, and half of those with daemons."""
    tests = [test for test in tests if "threads" in test.suites]
    waiting = [test for test in tests if test.suites & {"daemon", "unit"}]
    left = {test.name for test in share(waiting, day, 2)}
    return [test for test in tests if test.name not in left]


def clients(tests, day):
    return share([test for test in tests if "clients" in test.suites], day, 2)


def memcheck(tests, day):
    tests = [test for test in tests
             if any(f"/unit/{name}/" in test.program
                    for name in MEMCHECK_FOLDERS)
             and test.name not in TOO_LONG_IN_MEMCHECK]
    shares = 1 if os.environ.get("SL_LONG") else MEMCHECK_SHARES
    return share(tests, day, shares)


STAGES = {"asan": asan, "clients": clients, "memcheck": memcheck,
          "plain": plain, "tsan": tsan}


def read(build):
    said = subprocess.run(["meson", "introspect", "--tests", build],
                          check=True, stdout=subprocess.PIPE).stdout
    return [Test(entry) for entry in json.loads(said)]


def main():
    stage, build, day = sys.argv[1:]
    for test in STAGES[stage](read(build), int(day)):
        print(test.name)


if __name__ == "__main__":
    main()
