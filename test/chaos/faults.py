#!/usr/bin/env python3
"""faults.py README BUILD -- each row of the table names a test of the build
folder, a file, and a case that stands in it."""
import json
import os
import re
import subprocess
import sys

ROW = re.compile(r"^\| .+ \| \[(.+?)\]\((.+?)\) \| `(.+)` \|$")

readme, build = sys.argv[1:]
tests = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                       stdout=subprocess.PIPE).stdout
names = {test["name"] for test in json.loads(tests)}
number = failed = 0
for line in open(readme, encoding="utf-8"):
    if not line.startswith("|") or line.startswith(("|---", "| what ")):
        continue
    number += 1
    row = ROW.match(line)
    why = "not a row of three columns"
    if row:
        name, path, case = row.groups()
        path = os.path.join(os.path.dirname(readme), path)
        why = None
        if name not in names:
            why = "no test " + name
        elif not os.path.exists(path):
            why = "no file " + path
        elif case not in open(path, encoding="utf-8").read():
            why = "no case in " + path
    failed += why is not None
    print("%sok %d - %s%s" % ("not " if why else "", number,
                              line.split("|")[1].strip(),
                              ": " + why if why else ""))
print("1..%d" % number)
sys.exit(failed > 0 or number < 20)
