"""stats.py -- medians, spreads and the text of tables."""


def median(values):
    """The middle value, or the mean of the two middle values."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("there is no value")
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


def summary(values):
    """Median, smallest and largest value."""
    return {"median": median(values), "low": min(values), "high": max(values)}


def number(value):
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 2
    while abs(value) < 10 ** (2 - digits) and digits < 8:
        digits += 1
    return f"{value:.{digits if abs(value) < 10 else 1}f}"


def table(head, rows):
    """A table in Markdown. The first column is left-aligned."""
    lines = ["| " + " | ".join(head) + " |",
             "|" + "---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |"
              for row in rows]
    return "\n".join(lines)
