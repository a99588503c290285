"""driver -- goes through the requirements of a system, line by line.

A program of this folder makes a System, and a function for each line:

    @system.line("000-R05", "no subscription or plan means free")
    def _(d):
        yield "a user without a plan", d.burst(9, user="u"), "8 pass, then 429"

Each yield is what was looked at, what was seen and what the line demands. The
line is met if both are equal. `decision` names a page of docs/decisions that
answers an open question of the line. `differs` names the page that explains why
the line is not met to the letter; what is demanded then is what that page says.
`missing` says what is not there yet; when it is there, a comment says so, and
with SL_LONG=1 the line fails. `outside` says why a line is none of a rate
limiter's; its yields show what is there for it.

    PROGRAM SLUICED SLUICED-TEST SLUICE           compares with the page, TAP
    PROGRAM SLUICED SLUICED-TEST SLUICE --write   writes its part of the page

The page is docs/requirements.md. It has nothing that differs from run to run:
no times, ports or ids. Every line starts with an empty state at NOON.
"""

import json
import os
import re
import sys
import traceback

from servers import ROOT, stop_all

PAGE = os.path.join(ROOT, "docs/requirements.md")
IDS = os.path.join(ROOT, "test/data/requirements.txt")
HEAD = "| id | requirement | result | what was seen |\n|---|---|---|---|\n"


class Differs(Exception):
    """What was seen is not what the line demands."""


class Line:
    """One requirement, and how it is looked at."""

    def __init__(self, name, text, look, decision=None, differs=None,
                 missing=None, outside=None):
        self.name, self.text, self.look = name, text, look
        self.decision, self.differs = decision, differs
        self.missing, self.outside = missing, outside

    def see(self, fixture):
        """What was seen, in words."""
        words = []
        for what, got, want in self.look(fixture) or ():
            if got != want:
                raise Differs(f"{what}: {got!r} instead of {want!r}")
            words.append(f"{what}: {shown(got)}" if got is not None else what)
        return "; ".join(words)

    def row(self, fixture):
        """The result and what was seen; raises Differs."""
        if self.missing:
            try:
                self.see(fixture)
            except Differs:
                return "differs", self.missing
            if os.environ.get("SL_LONG"):
                raise Differs("it is met now; remove `missing`")
            print(f"# {self.name} is met now; remove `missing`")
            return "differs", self.missing
        seen = self.see(fixture)
        if self.outside:
            return "out of scope", "; ".join(filter(None, [self.outside, seen]))
        if not seen:
            raise Differs("nothing was looked at")
        page = self.differs or self.decision
        if page:
            path = f"docs/decisions/{page}.md"
            if not os.path.exists(os.path.join(ROOT, path)):
                raise Differs(f"there is no {path}")
            seen += f" ([decision of {page[:10]}](decisions/{page}.md))"
        return "differs" if self.differs else "ok", seen


class System:
    """The lines of one system: its section of the page."""

    def __init__(self, title, ids, fixture):
        self.title, self.ids, self.fixture = title, ids, fixture
        self.lines = []

    def line(self, name, text, **how):
        def add(look):
            self.lines.append(Line(name, text, look, **how))
            return look
        return add

    def main(self):
        write = "--write" in sys.argv
        try:
            code = self.run(write)
        finally:
            stop_all()
        sys.exit(code)

    def run(self, write):
        fixture = self.fixture()
        page = section(self.title)
        rows, failed = [], 0
        print(f"1..{len(self.lines) + 1}")
        for number, line in enumerate(self.lines, 1):
            row, why = self.one(line, fixture)
            if row and row not in page and not write:
                why = f"the page has another row; --write would write {row}"
            failed += bool(why)
            rows.append(row or "")
            result, seen = row.split(" | ", 3)[2:] if row else ("differs", "")
            seen = seen.rstrip(" |\n")
            say(number, why, f"{line.name}  {result}  {seen}")
        why = self.incomplete()
        if not why and not write and section(self.title) != "".join(rows):
            why = "the rows of the page are others, or in another order"
        say(len(self.lines) + 1, why, "every line, once")
        if write and not failed and not why:
            replace(self.title, "".join(rows))
        return 1 if failed or why else 0

    def one(self, line, fixture):
        """A row of the page, or why there is none."""
        try:
            fixture.fresh()
            result, seen = line.row(fixture)
        except Differs as why:
            return None, str(why)
        except Exception:  # pylint: disable=broad-except
            return None, traceback.format_exc()
        return (f"| {line.name} | {line.text} | {result} | "
                f"{seen.replace('|', '&#124;')} |\n"), None

    def incomplete(self):
        with open(IDS, encoding="ascii") as file:
            want = [i for i in file.read().split() if re.match(self.ids, i)]
        have = [line.name for line in self.lines]
        lost = sorted(set(want) ^ set(have))
        return (f"missing or unknown: {lost}" if lost else
                "twice" if len(have) != len(set(have)) else None)


def shown(value, between=", "):
    """A value as the page has it."""
    if isinstance(value, (list, tuple)):
        return between.join(shown(one, "/") for one in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value).strip()


def say(number, why, text):
    if why:
        print("# " + why.replace("\n", "\n# "))
    print(f"{'not ok' if why else 'ok'} {number} - {text}", flush=True)


# ---- the page ----

def bounds(text, title):
    """Where the table of a section begins and ends."""
    start = text.find(f"\n## {title}\n")
    if start < 0:
        return len(text), len(text)
    end = text.find("\n## ", start + 1)
    return start, len(text) if end < 0 else end


def section(title):
    """The rows of a section."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    start, end = bounds(text, title)
    rows = [line + "\n" for line in text[start:end].split("\n")
            if re.match(r"\| ([0-9]{3}-|7-|V[0-9])", line)]
    return "".join(rows)


def replace(title, rows):
    """Write the section anew."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    start, end = bounds(text, title)
    made = f"\n## {title}\n\n{HEAD}{rows}"
    with open(PAGE + ".new", "w", encoding="utf-8") as file:
        file.write(text[:start] + made + text[end:])
    os.rename(PAGE + ".new", PAGE)


# ---- what is looked at in the tree ----

def names(path, text):
    """A file that has a text: a test, a page, a setting. For lines that no
    request can show."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        there = text in file.read()
    return f"`{path}` has \"{text}\"", None if there else "not there", None
