#!/usr/bin/env python3
"""tidy.py -- runs clang-tidy on sources, and remembers which were clean.

  tidy.py BUILD STATES SHARE FILE...

BUILD has compile_commands.json. STATES bounds the analyzer. SHARE is the share
of the files that the analyzer reads, such as 2/6, the second sixth; all other
checks read every file. Prints what clang-tidy prints; exits 1 if a run has
failed. Two run at a time.

A file may be compiled several times. It is read once for each set of macros on
the command line that its sources use: the daemon with and without the virtual
clock, the table with and without hooks. A second command with the same macros
is the same code.

A clean result is remembered in BUILD.tidy under a hash of all that it depends
on: the contents of the source and of all its headers, the command, the
configuration and the version of clang-tidy. So a file is skipped only if the
same run was clean before.
"""
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys

PATIENCE = 600  # seconds for one file


def read(path, known={}):
    """The contents of a file, read once."""
    if path not in known:
        with open(path, "rb") as file:
            known[path] = file.read()
    return known[path]


def flags_of(command, file):
    """The flags of a compiler, without its name, input and outputs."""
    words = shlex.split(command)
    while words and not words[0].startswith("-"):
        words.pop(0)
    flags = []
    rest = iter(words)
    for word in rest:
        if word in ("-o", "-MF", "-MQ"):
            next(rest)
        elif word not in ("-c", "-MD", file):
            flags.append(word)
    return flags


class Run:
    """clang-tidy on one file with one set of flags."""

    def __init__(self, entry):
        self.folder, self.file = entry["directory"], entry["file"]
        self.path = os.path.normpath(os.path.join(self.folder, self.file))
        self.flags = flags_of(entry["command"], self.file)
        self.macros = {f for f in self.flags if f.startswith(("-D", "-U"))}
        self.checks = []  # those of .clang-tidy

    def depends(self):
        """The source and its headers; the source alone if it is broken."""
        done = subprocess.run(["clang", "-M", *self.flags, self.file],
                              cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            return [self.path]
        names = done.stdout.replace("\\\n", " ").split(":", 1)[1].split()
        return [os.path.join(self.folder, name) for name in names]

    def has_other_code(self, other):
        """Do its sources name a macro that `other` has not on its line?"""
        names = {re.split("[=(]", flag[2:])[0].encode()
                 for flag in self.macros ^ other.macros}
        return any(name in read(path)
                   for path in self.depends() for name in names)

    def mark(self, states, about):
        """The hash of all that the result depends on."""
        known = hashlib.sha256(about)
        for text in (states, *self.checks, self.file, *self.flags):
            known.update(text.encode() + b"\0")
        for path in self.depends():
            known.update(path.encode() + b"\0" + read(path) + b"\0")
        return known.hexdigest()

    def tidy(self, states):
        words = ["clang-tidy", "--quiet", *self.checks]
        for word in ("-Xclang", "-analyzer-config", "-Xclang",
                     "max-nodes=" + states):
            words.append("--extra-arg=" + word)
        try:
            return subprocess.run(
                [*words, self.file, "--", *self.flags], cwd=self.folder,
                timeout=PATIENCE, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(
                words, 1, "", f"{self.path}: more than {PATIENCE} s\n")


def choose(build, files):
    """The runs for these files, without those that read the same code."""
    wanted = {os.path.realpath(file) for file in files}
    with open(os.path.join(build, "compile_commands.json"),
              encoding="utf-8") as file:
        runs = [Run(entry) for entry in json.load(file)]
    # The libraries of src/ first: tests compile the same files again.
    chosen = {}
    for run in runs:
        if os.path.realpath(run.path) in wanted:
            ours = chosen.setdefault(run.path, [])
            if not ours or all(run.has_other_code(other) for other in ours):
                ours.append(run)
    missing = wanted - {os.path.realpath(path) for path in chosen}
    return [run for ours in chosen.values() for run in ours], missing


def leave_out_analyzer(runs, share):
    """For the files that are not in the share."""
    which, shares = (int(number) for number in share.split("/"))
    paths = sorted({run.path for run in runs})
    chosen = set(paths[which - 1::shares])
    for run in runs:
        if run.path not in chosen:
            # Without the analyzer, -Werror makes errors of clang's warnings.
            run.checks = ["--checks=-clang-analyzer-*",
                          "--extra-arg=-Wno-error"]


def main():
    build, states, share, files = *sys.argv[1:4], sys.argv[4:]
    clean = build + ".tidy"
    os.makedirs(clean, exist_ok=True)
    about = subprocess.run(["clang-tidy", "--version"], check=True,
                           capture_output=True).stdout + read(".clang-tidy")
    runs, missing = choose(build, files)
    leave_out_analyzer(runs, share)
    status = 0

    def one(run):
        mark = os.path.join(clean, run.mark(states, about))
        if os.path.exists(mark):
            os.utime(mark)
            return None
        done = run.tidy(states)
        if done.returncode == 0 and not done.stdout:
            with open(mark, "w", encoding="ascii"):
                pass
        return done

    for path in sorted(missing):
        print(f"{path}: no command in {build} compiles it", file=sys.stderr)
        status = 1
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in pool.map(one, runs):
            if done:
                sys.stdout.write(done.stdout)
                sys.stderr.write(done.stderr)
                status = status or done.returncode != 0
    return status


sys.exit(main())
