"""svg.py -- plots as SVG text, without any package.

Colours follow the reader's colour scheme, so that a plot can be read on a light
and on a dark page.
"""
import math
from xml.sax.saxutils import escape

import stats

STYLE = """<style>
text { font: 13px sans-serif; fill: #24292f; }
.title { font-weight: bold; font-size: 15px; }
.small { font-size: 11px; fill: #57606a; }
.axis { stroke: #8c959f; stroke-width: 1; }
.grid { stroke: #d0d7de; stroke-width: 1; }
.s0 { stroke: #0969da; fill: #0969da; } .s1 { stroke: #bc4c00; fill: #bc4c00; }
.s2 { stroke: #1a7f37; fill: #1a7f37; } .s3 { stroke: #8250df; fill: #8250df; }
.line { fill: none; stroke-width: 2; }
.ours { fill: #0969da; } .theirs { fill: #afb8c1; }
@media (prefers-color-scheme: dark) {
 text { fill: #e6edf3; } .small { fill: #9198a1; }
 .grid { stroke: #3d444d; } .theirs { fill: #656c76; }
}
</style>"""


def document(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}" role="img">\n'
            + STYLE + "\n" + "\n".join(parts) + "\n</svg>\n")


def text(x, y, words, kind="", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" '
            f'text-anchor="{anchor}">{escape(str(words))}</text>')


def rule(x1, y1, x2, y2, kind):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'class="{kind}"/>')


# ---- bars ----

ROW, NAME_WIDTH, BAR_WIDTH = 20, 190, 430


def bars(title, groups, unit):
    """Horizontal bars. `groups` is a list of (title, [(name, value, is_ours)]).
    Every group has a scale of its own, from 0."""
    parts, y = [text(10, 22, title, "title")], 40
    for heading, rows in groups:
        y += 18
        parts.append(text(10, y, f"{heading} ({unit})"))
        y += 8
        most = max(value for _, value, _ in rows)
        for name, value, is_ours in rows:
            width = max(1.0, value / most * BAR_WIDTH)
            parts.append(text(NAME_WIDTH - 8, y + 14, name, "small", "end"))
            parts.append(
                f'<rect x="{NAME_WIDTH}" y="{y + 3}" width="{width:.1f}" '
                f'height="{ROW - 6}" class="{"ours" if is_ours else "theirs"}"'
                "/>")
            parts.append(text(NAME_WIDTH + width + 6, y + 14,
                              stats.number(value), "small"))
            y += ROW
    return document(NAME_WIDTH + BAR_WIDTH + 70, y + 12, parts)


# ---- lines ----

LEFT, TOP, WIDE, HIGH = 70, 44, 520, 260


def scale(values, is_log, length):
    """A function from values to 0..length."""
    low, high = min(values), max(values)
    if is_log:
        low, high = math.log10(low), math.log10(high)
    else:
        low = 0
    span = (high - low) or 1
    return lambda v: ((math.log10(v) if is_log else v) - low) / span * length


def ticks(low, high, is_log):
    """Round numbers between `low` and `high`, with both in their range."""
    if is_log:
        return [10 ** n for n in range(math.floor(math.log10(low)),
                                       math.ceil(math.log10(high)) + 1)]
    step = 10 ** math.floor(math.log10(high or 1))
    while high / step < 4:
        step /= 2
    return [n * step for n in range(0, math.ceil(high / step) + 1)]


def short(value):
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def curves(title, x_name, y_name, series, log_x=True, log_y=False):
    """Lines through points. `series` is a list of (name, [(x, y)])."""
    xs = [x for _, points in series for x, _ in points]
    ys = [y for _, points in series for _, y in points]
    x_ticks = ticks(min(xs), max(xs), log_x)
    y_ticks = ticks(min(ys), max(ys), log_y)
    at_x = scale([*xs, *(t for t in x_ticks if log_x)], log_x, WIDE)
    at_y = scale(y_ticks, log_y, HIGH)
    parts = [text(10, 22, title, "title"), text(LEFT, 38, y_name, "small")]
    for tick in y_ticks:
        y = TOP + HIGH - at_y(tick)
        parts.append(rule(LEFT, y, LEFT + WIDE, y, "grid"))
        parts.append(text(LEFT - 6, y + 4, short(tick), "small", "end"))
    for tick in x_ticks:
        x = LEFT + at_x(tick)
        if x <= LEFT + WIDE + 1:
            parts.append(text(x, TOP + HIGH + 18, short(tick), "small",
                              "middle"))
    parts.append(rule(LEFT, TOP + HIGH, LEFT + WIDE, TOP + HIGH, "axis"))
    parts.append(text(LEFT + WIDE / 2, TOP + HIGH + 36, x_name, "small",
                      "middle"))
    for number, (name, points) in enumerate(series):
        kind = f"s{number % 4}"
        dots = [(LEFT + at_x(x), TOP + HIGH - at_y(y)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(f'<polyline points="{path}" class="{kind} line"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="{kind}"/>'
                  for x, y in dots]
        parts.append(f'<rect x="{LEFT + WIDE + 12}" y="{TOP + 18 * number}" '
                     f'width="10" height="10" class="{kind}"/>')
        parts.append(text(LEFT + WIDE + 28, TOP + 10 + 18 * number, name,
                          "small"))
    return document(LEFT + WIDE + 180, TOP + HIGH + 48, parts)
