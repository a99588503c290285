"""promql.py NAMES EXPRESSIONS -- metrics in expressions that no daemon has.

NAMES is what `page names` prints. EXPRESSIONS has one a line. Prints a line for
each metric that does not exist, and for each label that its metric does not
have; the metrics that were found go to standard error.
"""
import re
import sys

FROM_SCRAPING = {"job", "instance", "le"}
parts = ("_bucket", "_sum", "_count")

known = {}
for line in open(sys.argv[1]):
    name, kind, *labels = line.split()
    known[name] = set(labels) | FROM_SCRAPING
    if kind == "histogram":
        known.update({name + part: known[name] for part in parts})

used = set()
for line in open(sys.argv[2]):
    bare = re.sub(r'"[^"]*"', '""', line)
    for name, matchers in re.findall(
            r"\b((?:sluice|process)_\w+)(?:\{([^}]*)\})?", bare):
        if name not in known:
            print(f"there is no {name}: {line.strip()}")
            continue
        used.add(name)
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers):
            if label not in known[name]:
                print(f"{name} has no {label}: {line.strip()}")
    # What is grouped by must be a label of some metric in the expression.
    here = re.findall(r"\b(?:sluice|process)_\w+", bare)
    labels = set().union(FROM_SCRAPING, *(known.get(n, ()) for n in here))
    for group in re.findall(r"\bby\s*\(([^)]*)\)", bare):
        for label in re.findall(r"\w+", group):
            if here and label not in labels:
                print(f"nothing has {label}: {line.strip()}")

base = {re.sub("(_bucket|_sum|_count)$", "", n)
        if re.sub("(_bucket|_sum|_count)$", "", n) in known else n
        for n in used}
print("\n".join(sorted(base)), file=sys.stderr)
