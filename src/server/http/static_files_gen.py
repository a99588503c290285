#!/usr/bin/env python3
"""static_files_gen.py OUTPUT WEB FILE... -- embed the files of web/.

Writes a C file with each FILE below the folder WEB as it is and gzipped, its
content type and the hash of its bytes (for the ETag). The names are those
below /ui/: web/console/X is X, web/NAME/X is NAME/X. They are sorted, for
bsearch(). The output depends on the contents alone.
"""
import gzip
import hashlib
import pathlib
import sys

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".LICENSE": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

LINE = 64  # bytes of a file on a line of C


def literal(data):
    """The bytes as the lines of a C string."""
    lines = []
    for at in range(0, len(data), LINE):
        lines.append('        "%s"' % "".join(
            chr(b) if 32 <= b < 127 and b not in b'"\\?' else "\\%03o" % b
            for b in data[at:at + LINE]))
    return "\n".join(lines) or '        ""'


def slice_of(data):
    return "{\n%s,\n        %d}" % (literal(data), len(data))


def name_of(web, path):
    parts = path.relative_to(web).parts
    return "/".join(parts[1:] if parts[0] == "console" else parts)


def row(web, path):
    data = path.read_bytes()
    kind = TYPES.get(path.suffix)
    if kind is None:
        sys.exit("%s: unknown content type; add %s to TYPES in %s" %
                 (path, path.suffix, sys.argv[0]))
    return "    {%s,\n     %s,\n     %s,\n     %s,\n     %s},\n" % (
        slice_of(name_of(web, path).encode()), slice_of(kind.encode()),
        slice_of(hashlib.sha256(data).hexdigest()[:20].encode()),
        slice_of(data), slice_of(gzip.compress(data, 9, mtime=0)))


def main():
    output, web = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    files = sorted((pathlib.Path(name).resolve() for name in sys.argv[3:]),
                   key=lambda path: name_of(web, path).encode())
    with open(output, "w", encoding="ascii") as out:
        out.write("/* Made by static_files_gen.py from web/. */\n"
                  '#include "server/http/static_files.h"\n\n'
                  "const struct sl_static_file sl_static_files[] = {\n")
        out.writelines(row(web, path) for path in files)
        out.write("};\n\nconst unsigned sl_static_file_count = %d;\n"
                  % len(files))


main()
