#!/usr/bin/env python3
"""todays_tests.py -- no program is left out of scripts/test for more than a day
without another that runs the same code.

    todays_tests.py ROOT BUILD
"""
import sys

ROOT, BUILD = sys.argv[1:]
sys.dont_write_bytecode = True
sys.path.insert(0, f"{ROOT}/scripts/lib")

# pylint: disable=wrong-import-position
import todays_tests as chosen  # noqa: E402

DAYS = range(20776, 20788)
tests = chosen.read(BUILD)
names = {test.name for test in tests}
clients = {test.name for test in tests if "clients" in test.suites}
count = failed = 0


def ok(true, name, said=()):
    global count, failed
    count += 1
    failed += not true
    for one in sorted(said):
        print("#", one)
    print(f"{'ok' if true else 'not ok'} {count} - {name}", flush=True)


def names_of(stage, day):
    return {test.name for test in chosen.STAGES[stage](tests, day)}


def left_by(stages, days):
    """The names that these stages run on none of the days."""
    left = names - clients
    for stage in stages:
        for day in days:
            left -= names_of(stage, day)
    return left


def all_days(stages, length, want):
    return {name for day in DAYS
            for name in left_by(stages, range(day, day + length)) & want}


def of(*suites):
    return {test.name for test in tests if test.suites & set(suites)}


left = all_days(("asan", "plain"), 2, names)
ok(not left, "asan and plain run each program in two days", left)
left = all_days(("asan", "plain"), 1, of("unit", "prop", "conform", "flow",
                                         "cli", "redis", "shared", "threads"
                                         ) - of("again", "daemon"))
ok(not left, "and each of those without two databases in one", left)
left = all_days(("tsan",), 2, of("threads"))
ok(not left, "tsan runs each program with threads in two days", left)
left = {name for day in DAYS
        for name in clients - names_of("clients", day)
        - names_of("clients", day + 1)}
ok(not left, "clients runs each client in two days", left)
left = all_days(("plain",), 3, names - of(*chosen.NOT_IN_PLAIN)
                - of("again"))
ok(not left, "plain runs what asan runs in three days", left)
twice = {name for day in DAYS for name in of("conform")
         if (name in names_of("asan", day)) == (name in names_of("plain", day))}
ok(not twice, "asan and plain share the conformance programs", twice)
print(f"1..{count}")
sys.exit(failed > 0)
