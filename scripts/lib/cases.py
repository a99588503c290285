#!/usr/bin/env python3
"""cases.py -- counts the cases of a test run; for scripts/lib/tests.sh.

    cases.py again LOG.json
        print the failed programs that run once more, one name a line
    cases.py count STAGE FOLDER LOG.json [AGAIN.json]
        print PROGRAMS PASSED FAILED NOTE; write STAGE.failed, which is the
        end of what failed programs printed, and STAGE.slowest to FOLDER

The logs are Meson's, one program a line. Programs that start processes and wait
for sockets may fail on a busy machine: they run once more. So do programs with
a PostgreSQL, which has two seconds for an answer. Other programs, and runs with
more than three failures, do not.
"""
import json
import os
import re
import sys

WITH_PROCESSES = {"cli", "clients", "daemon", "dynamo", "nginx", "ops", "proxies",
                  "redis", "shared"}
WITHOUT = {"unit", "prop", "conform"}
MOST_AGAIN = 3
SLOWEST = 25


class Program:
    """One program of a log and its cases."""

    def __init__(self, line):
        test = json.loads(line)
        place, _, self.name = test["name"].rpartition(" / ")
        self.place = test["name"]
        self.suites = set(place.rpartition(":")[2].split("+"))
        self.seconds = test["duration"]
        self.said = test.get("stdout", "") + test.get("stderr", "")
        self.bad = len(re.findall(r"^not ok\b", self.said, re.M))
        self.good = len(re.findall(r"^ok\b(?!.*# *skip)", self.said,
                                   re.M | re.I))
        self.undefined = "runtime error:" in self.said  # UBSan
        self.failed = self.undefined or \
            test["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")
        if self.failed:
            self.bad = self.bad or 1  # without a `not ok`
        elif self.good + self.bad == 0 and test["result"] == "OK":
            self.good = 1

    def may_again(self):
        if self.undefined:
            return False
        return "postgres" in self.name or bool(
            self.suites & WITH_PROCESSES and not self.suites & WITHOUT)

    def complain(self, file):
        """Write the end of its output, which Meson does not show."""
        said = [line for line in self.said.splitlines()
                if not line.startswith("ok ")]
        print(self.name, *said[-40:], sep="\n", file=file)

    def keep(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.said)


def read(path):
    """The programs of a log by name; two of one name would hide each other."""
    programs = {}
    with open(path, encoding="utf-8") as file:
        for one in map(Program, file):
            if one.name in programs:
                sys.exit("cases: two tests have the name " + one.name)
            programs[one.name] = one
    return programs


def again(path):
    failed = [one for one in read(path).values() if one.failed]
    if len(failed) <= MOST_AGAIN:
        for one in failed:
            if one.may_again():
                print(one.name)


def count(stage, folder, first, second):
    unsteady = []
    for name, one in second.items():
        one.keep(os.path.join(folder, f"{stage}.{name}.second"))
        first[name].complain(sys.stderr)
        first[name].keep(os.path.join(folder, f"{stage}.{name}.first"))
        if not one.failed:
            unsteady.append(name)
    last = {**first, **second}
    with open(os.path.join(folder, stage + ".failed"), "w",
              encoding="utf-8") as file:
        for one in last.values():
            if one.failed:
                one.complain(file)
    with open(os.path.join(folder, stage + ".slowest"), "w",
              encoding="utf-8") as file:
        for one in sorted(first.values(), key=lambda one: -one.seconds)[:SLOWEST]:
            print("%6.1f s %s" % (one.seconds, one.place), file=file)
    good = sum(one.good for one in last.values())
    bad = sum(one.bad for one in last.values() if one.failed)
    note = "%d programs, %d cases" % (len(last), good + bad)
    if unsteady:
        note += ", unsteady: " + " ".join(sorted(unsteady))
    failed = sorted(one.name for one in last.values() if one.failed)
    if failed:
        note += ", failed: " + " ".join(failed)
    print(len(last), good, bad, note)


def main():
    if sys.argv[1] == "again":
        again(sys.argv[2])
    else:
        count(sys.argv[2], sys.argv[3], read(sys.argv[4]),
              read(sys.argv[5]) if len(sys.argv) > 5 else {})


main()
