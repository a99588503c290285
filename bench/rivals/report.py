"""report.py -- the result as lines, as tables and as a picture."""
import stats
import svg


def detail(row):
    """What is known of a row that was measured, as words."""
    us = row["us"]
    words = [f"{stats.number(us['median'])} us of CPU per decision "
             f"({stats.number(us['low'])} to {stats.number(us['high'])})"]
    if len(row.get("by", {})) > 1:
        words.append(", ".join(f"{name} {stats.number(value)}"
                               for name, value in row["by"].items()))
    if "rate" in row:
        words.append(f"{stats.number(row['rate'])}/s")
    if "busy" in row:
        words.append(f"{row['busy'] * 100:.0f} % busy")
    if row.get("bytes"):
        words.append(f"{row['bytes']:.0f} bytes per key")
    if "denied" in row:
        words.append(f"{row['denied']} denied")
    return "; ".join(words)


def lines(result):
    """One line per entrant, as the other groups of scripts/bench print."""
    out = ""
    for name, contest in result["contests"].items():
        for row in contest["rows"]:
            title = f"{name}: {row['name']}"
            if "skipped" in row:
                out += f"{title}\t-\t-\tskipped\t{row['skipped']}\n"
            else:
                ratio = f"{row['ratio']:.2f}" if "ratio" in row else "-"
                out += f"{title}\t{ratio}\t-\tmeasured\t{detail(row)}\n"
    for row in result.get("over_admission", []):
        title = f"over-admission: {row['name']}"
        if "skipped" in row:
            out += f"{title}\t-\t-\tskipped\t{row['skipped']}\n"
        else:
            out += (f"{title}\t{row['admitted'] / row['limit']:.3f}\t-\t"
                    f"measured\t{row['admitted']} admitted, the limit is "
                    f"{row['limit']}; {row['asked']} asked, two processes\n")
    return out


def cells(row):
    if "skipped" in row:
        return [row["name"], "skipped: " + row["skipped"], "", "", ""]
    us = row["us"]
    by = row.get("by", {})
    return [row["name"], stats.number(us["median"]),
            f"{stats.number(us['low'])} to {stats.number(us['high'])}",
            f"{row['ratio']:.2f}" if "ratio" in row else "",
            ", ".join(f"{name} {stats.number(value)}"
                      for name, value in by.items()) if len(by) > 1 else
            f"{row['bytes']:.0f} bytes per key" if row.get("bytes") else ""]


def tables(result):
    out = ""
    for contest in result["contests"].values():
        out += f"### {contest['title']}\n\n" + stats.table(
            ["", "CPU µs per decision", "spread", "× Sluice", ""],
            [cells(row) for row in contest["rows"]]) + "\n\n"
    if "over_admission" in result:
        out += "### Two processes, one limit of 1,000\n\n" + stats.table(
            ["", "asked", "admitted"], [
                [row["name"], f"{row['asked']:,}", f"{row['admitted']:,}"]
                if "asked" in row else
                [row["name"], "", "skipped: " + row["skipped"]]
                for row in result["over_admission"]]) + "\n\n"
    return out


def picture(result):
    """Bars of every contest that was measured."""
    groups = []
    for contest in result["contests"].values():
        rows = [(row["name"], row["us"]["median"],
                 row["name"].startswith("Sluice"))
                for row in contest["rows"] if "us" in row]
        if rows:
            groups.append((contest["title"], sorted(rows, key=lambda r: r[1])))
    return svg.bars(f"CPU time of the server per decision, {result['date']}",
                    groups, "µs")
