#!/usr/bin/env python3
"""maps.py -- compares the maps of docs/internals with the source.

  maps.py names ROOT PAGE...               each function is in its file, and
                                           each file and sl_ name exists
  maps.py order ROOT PAGE PROGRAM CALLS    CALLS has the rows' functions in order
  maps.py show ROOT PROGRAM CALLS          prints the calls, to write a map

A row names a function and its file, each in backticks in a cell of its own:

  | `sl_check_start` | `src/engine/check.c` | what it does |

CALLS has one address per line (trace.c). Prints PAGE:LINE: and a sentence for
each row that is wrong, and exits 1.
"""
import os
import re
import subprocess
import sys

ROW = re.compile(r"^\| `(\w+)` \| `(src/[\w/.]+)` \|")
PATH = re.compile(r"`((?:src|test|docs|include|scripts)/[\w/.-]+)`")
NAME = re.compile(r"`(?:struct |enum )?(sl_\w+)(?:\(\))?`")


def rows(page):
    """The rows of a page, as (line, function, file)."""
    with open(page, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            found = ROW.match(line)
            if found:
                yield number, found[1], found[2]


def definitions(root):
    """A dictionary: the files that define a function, by its name."""
    files = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-co",
         "--exclude-standard", "src"],
        cwd=root, capture_output=True, text=True, check=True).stdout.split()
    files = [f for f in files if f.endswith((".c", ".h"))
             and os.path.exists(os.path.join(root, f))]
    tags = subprocess.run(
        ["ctags", "--language-force=C", "--kinds-C=f", "-x",
         "--_xformat=%N %F", "-L", "-"],
        cwd=root, input="\n".join(files), capture_output=True, text=True,
        check=True).stdout
    where = {}
    for line in tags.splitlines():
        name, file = line.split()
        where.setdefault(name, []).append(file)
    return where


def check_paths(root, page):
    """How many files and folders that a page names do not exist."""
    wrong = 0
    with open(page, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            for path in PATH.findall(line):
                if "NAME" in path or os.path.exists(os.path.join(root, path)):
                    continue
                wrong += 1
                print(f"{os.path.relpath(page, root)}:{number}: there is no "
                      f"{path}: change this line")
    return wrong


def words_of(root):
    """The words of src that begin with sl_."""
    found = subprocess.run(
        ["grep", "-rhowE", r"sl_\w+", "src"], cwd=root, capture_output=True,
        text=True, check=True).stdout
    return set(found.split())


def check_words(root, page, words):
    """How many sl_ names of a page are not in src."""
    wrong = 0
    with open(page, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            for name in NAME.findall(line):
                if name in words:
                    continue
                wrong += 1
                print(f"{os.path.relpath(page, root)}:{number}: there is no "
                      f"{name} in src: change this line")
    return wrong


def check_names(root, pages):
    where = definitions(root)
    words = words_of(root)
    wrong = sum(check_paths(root, page) + check_words(root, page, words)
                for page in pages)
    for page in pages:
        for line, name, file in rows(page):
            if file in where.get(name, []):
                continue
            wrong += 1
            at = f"{os.path.relpath(page, root)}:{line}"
            if name in where and len(where[name]) == 1:
                print(f"{at}: {name}() is in {where[name][0]} now, not in "
                      f"{file}: change the file in this line")
            else:
                print(f"{at}: there is no {name}() in {file}: change this "
                      "line to the function that does this step now")
    return wrong


def read_calls(root, program, calls):
    """The calls in order, as (function, file)."""
    with open(calls, encoding="ascii") as lines:
        addresses = lines.read().split()
    each = sorted(set(addresses))
    told = subprocess.run(
        ["addr2line", "-f", "-e", program], input="\n".join(each),
        capture_output=True, text=True, check=True).stdout.splitlines()
    names = {}
    for address, name, place in zip(each, told[0::2], told[1::2]):
        file = os.path.normpath(place.rsplit(":", 1)[0])
        found = re.search(r"(^|/)(src/.*)", file[len(root):]
                          if file.startswith(root) else file)
        names[address] = (name, found[2] if found else file)
    return [names[address] for address in addresses]


def check_order(root, page, program, calls):
    made = read_calls(root, program, calls)
    at, before = 0, "the start of the request"
    for line, name, file in rows(page):
        try:
            at = made.index((name, file), at) + 1
        except ValueError:
            place = f"{os.path.relpath(page, root)}:{line}"
            if (name, file) in made:
                print(f"{place}: {name}() of {file} is not called after "
                      f"{before}: change the order of the rows")
            else:
                print(f"{place}: {name}() of {file} is not called by this "
                      "request: remove or change this line")
            return 1
        before = f"{name}()"
    if at == 0:
        print(f"{page}: no row of a map")
    return at == 0


def main():
    what, root = sys.argv[1], os.path.realpath(sys.argv[2])
    if what == "names":
        return check_names(root, sys.argv[3:]) > 0
    if what == "order":
        return check_order(root, *sys.argv[3:])
    for name, file in read_calls(root, *sys.argv[3:]):
        print(file, name)
    return 0


sys.exit(main())
