#!/usr/bin/env python3
"""Tables and plot of predicted against measured step times, from the rows that `accuracy` wrote.

usage: tests/bench/accuracy_report.py FOLDER

The error of a row is the median over its rounds of predicted / measured - 1, where both are of the same
round.  Kendall's tau of a model is (pairs in the right order - pairs in the wrong one) / pairs, over pairs of
layouts on one network whose measured times (medians over rounds) differ by more than 5 %.
"""
import argparse
import csv
import math
import os
import statistics

# Of every round: seconds, what the machine drifted between the calibrations before and after it (a share of the
# prediction), and how many processors something else took.
ROUND_COLUMNS = ["predicted", "by_scan", "by_events", "measured", "scanned_in", "simulated_in", "drift", "others"]
COLUMNS = ["network", "model", "batch", "layout", *ROUND_COLUMNS, "bytes_sent", "peak_bytes", "cause", "reason"]
MISS = 0.15 # of |error|: listed one by one
APART = 0.05 # relative difference from which the order of two layouts counts


def new_row(network, model, batch, layout):
    return {"network": network, "model": model, "batch": batch, "layout": layout,
            **{key: [] for key in ROUND_COLUMNS}, "bytes_sent": None, "peak_bytes": None, "cause": "", "reason": ""}


def read_rows(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["batch"] = int(row["batch"])
        for key in ROUND_COLUMNS:
            row[key] = [float(x) for x in (row.get(key) or "").split()]
        for key in ("bytes_sent", "peak_bytes"):
            row[key] = int(row[key]) if row[key] else None
    return rows


def write_rows(path, rows):
    with open(path + ".part", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, **{key: " ".join(map(str, row[key])) for key in ROUND_COLUMNS}})
    os.replace(path + ".part", path)


def find_cause(ran):
    """Of what `cleave run --machine --json` printed: the kind of time that is furthest from its prediction, and
    by how much of the step."""
    def excess(kind):
        return (kind["predicted_seconds"] - kind["measured_seconds"]) / ran["step_seconds"]

    worst = max(ran["time_by_kind"], key=lambda kind: abs(excess(kind)))
    return f"{worst['kind']} {percent(excess(worst))} of the step"


def is_done(row):
    return bool(not row["reason"] and row["measured"])


def measured(row):
    return statistics.median(row["measured"])


def predicted(row):
    return statistics.median(row["predicted"])


def error(row, key="predicted"):
    return statistics.median(p / m - 1 for p, m in zip(row[key], row["measured"]))


def spread(values):
    """The range over the median, or None of a single one."""
    return (max(values) - min(values)) / statistics.median(values) if len(values) > 1 else None


def percent(value):
    return "-" if value is None else f"{100 * value:+.1f}%"


def milliseconds(value):
    return f"{1e3 * value:.4g}"


def describe(row):
    what = f"{row['network']} {row['model']} {row['layout']}: "
    if not is_done(row):
        return what + "skipped: " + row["reason"]
    times = [", ".join(milliseconds(x) for x in row[key]) for key in ("predicted", "measured")]
    return what + f"predicted {times[0]} ms, measured {times[1]} ms, {percent(error(row))}"


def count_pairs(rows):
    """(pairs in the right order, in the wrong one, all), of the pairs that count."""
    right = wrong = pairs = 0
    for i, a in enumerate(rows):
        for b in rows[:i]:
            x, y = measured(a), measured(b)
            if a["network"] != b["network"] or abs(x - y) <= APART * min(x, y):
                continue
            product = (x - y) * (predicted(a) - predicted(b))
            right, wrong, pairs = right + (product > 0), wrong + (product < 0), pairs + 1
    return right, wrong, pairs


def percentile(values, share):
    """The least value that so many are not above."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def summarize(name, rows, key="predicted"):
    errors = [abs(error(row, key)) for row in rows]
    print(f"{name:<22} {len(rows):4} layouts   |error| median {100 * statistics.median(errors):5.1f}%   "
          f"95th percentile {100 * percentile(errors, .95):5.1f}%   above {100 * MISS:.0f}%: "
          f"{sum(e > MISS for e in errors)}")


def groups(rows, *keys):
    """Rows by the values of the keys, in the order of their first appearance."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def print_case(rows):
    print(f"{'layout':<18} {'predicted ms':>12} {'by events ms':>12} {'measured ms':>12} {'error':>8} {'rounds':>7} "
          f"{'spread of both':>16}  furthest off")
    for row in rows:
        if not is_done(row):
            print(f"{row['layout']:<18} " + ("skipped: " + row["reason"] if row["reason"] else "not measured yet"))
            continue
        print(f"{row['layout']:<18} {milliseconds(predicted(row)):>12} "
              f"{milliseconds(statistics.median(row['by_events'])):>12} {milliseconds(measured(row)):>12} "
              f"{percent(error(row)):>8} {len(row['measured']):>7} {percent(spread(row['predicted'])):>8}"
              f"{percent(spread(row['measured'])):>8}  {row['cause']}")
    print()


def print_speeds(rows):
    """How many times longer a step takes than its simulation, without lowering: the least of a model."""
    print("\na step takes so many times as long as its simulation, at least: by scan, by events")
    for (model,), case in groups(rows, "model").items():
        least = [min(measured(row) / statistics.median(row[key]) for row in case)
                 for key in ("scanned_in", "simulated_in")]
        print(f"{model:<22} {least[0]:14,.0f} {least[1]:14,.0f}")


def print_rules(rows):
    """Which rule of time for links is nearer to what was measured."""
    errors = [(abs(error(row, "by_scan")), abs(error(row, "by_events"))) for row in rows]
    differences = sorted(abs(statistics.median(row["by_scan"]) / statistics.median(row["by_events"]) - 1)
                         for row in rows)
    print(f"\nlinks served in program order (scan) nearer in {sum(s < e for s, e in errors)} layouts, by readiness "
          f"(events) in {sum(e < s for s, e in errors)}, equal in {sum(s == e for s, e in errors)}; they differ by "
          f"{100 * percentile(differences, .95):.2f}% at the 95th percentile, {100 * differences[-1]:.2f}% at most")


def print_drift(rows):
    """How the machine changed within rounds, and between those of a layout."""
    drifts = [abs(x) for row in rows for x in row["drift"]]
    if drifts:
        print(f"predictions before and after a run differ by {100 * statistics.median(drifts):.1f}% in the median of "
              f"{len(drifts)} rounds, {100 * percentile(drifts, .95):.1f}% at the 95th percentile, "
              f"{100 * max(drifts):.1f}% at most")
    for key, what in (("measured", "measured steps"), ("predicted", "predictions, each from kernels measured anew")):
        spreads = [spread(row[key]) for row in rows if len(row[key]) > 1]
        if spreads:
            print(f"range over rounds of {what}: median {100 * statistics.median(spreads):.1f}%, "
                  f"95th percentile {100 * percentile(spreads, .95):.1f}%")


def print_report(rows):
    for (network, model, batch), case in groups(rows, "network", "model", "batch").items():
        print(f"\n{model}, batch {batch}, network {network}")
        print_case(case)
    done = [row for row in rows if is_done(row)]
    if not done:
        print("nothing was measured")
        return
    for (network,), case in groups(done, "network").items():
        summarize("network " + network, case)
    for (model,), case in groups(done, "model").items():
        summarize("model " + model, case)
    summarize("all", done)
    summarize("all, by events", done, "by_events")
    print_rules(done)
    print_speeds(done)
    print_drift(done)
    print("\nKendall's tau over pairs that differ by more than 5 %:")
    for (model,), case in groups(done, "model").items():
        right, wrong, pairs = count_pairs(case)
        tau = f"{(right - wrong) / pairs:.3f}" if pairs else "-"
        print(f"  {model:<16} {tau:>6} of {pairs} pairs")
    misses = sorted((row for row in done if abs(error(row)) > MISS), key=lambda row: -abs(error(row)))
    print(f"\n{len(misses)} misses above {100 * MISS:.0f} %, with the time that is furthest from its prediction"
          + (":" if misses else ""))
    for row in misses:
        print(f"  {describe(row)}; {row['cause']}")
    print()


# --- The plot -------------------------------------------------------------------------------------

SIZE, LEFT, TOP = 640, 80, 40 # of the square that is plotted in, and where it is, pixels
COLORS = ["#1b6ca8", "#c8553d", "#3c8d53", "#8257a5", "#96752b"]


def marks():
    """Shapes around (x, y), one for each network."""
    return [lambda x, y: f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"',
            lambda x, y: f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"',
            lambda x, y: f'<path d="M{x:.1f} {y - 5:.1f} l4.5 8 h-9 z"',
            lambda x, y: f'<path d="M{x:.1f} {y - 5:.1f} l5 5 l-5 5 l-5 -5 z"']


class Axes:
    """The same logarithmic scale in both directions, over whole steps of 1, 2, 5."""

    def __init__(self, values):
        steps = [m * 10.0 ** e for e in range(-6, 5) for m in (1, 2, 5)]
        self.low = max(s for s in steps if s <= min(values) * 0.9)
        self.high = min(s for s in steps if s >= max(values) * 1.1)
        self.ticks = [s for s in steps if self.low <= s <= self.high]

    def along(self, seconds):
        return SIZE * math.log(seconds / self.low) / math.log(self.high / self.low)

    def x(self, seconds):
        return LEFT + self.along(seconds)

    def y(self, seconds):
        return TOP + SIZE - self.along(seconds)


def label(seconds):
    return f"{seconds:g} s" if seconds >= 1 else f"{1e3 * seconds:g} ms"


def frame(axes):
    """The grid, the diagonal and the band around it."""
    low, high = axes.low, axes.high
    for tick in axes.ticks:
        x, y = axes.x(tick), axes.y(tick)
        yield f'<path d="M{x:.1f} {TOP} v{SIZE} M{LEFT} {y:.1f} h{SIZE}" stroke="#ddd" fill="none"/>'
        yield f'<text x="{x:.1f}" y="{TOP + SIZE + 18}" text-anchor="middle">{label(tick)}</text>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label(tick)}</text>'
    band = [(low, low * (1 - MISS)), (high, high * (1 - MISS)), (high, high * (1 + MISS)), (low, low * (1 + MISS))]
    points = " ".join(f"{axes.x(m):.1f},{axes.y(p):.1f}" for m, p in band)
    yield f'<clipPath id="inside"><rect x="{LEFT}" y="{TOP}" width="{SIZE}" height="{SIZE}"/></clipPath>'
    yield f'<polygon points="{points}" fill="#888" opacity="0.18" clip-path="url(#inside)"/>'
    yield f'<path d="M{axes.x(low)} {axes.y(low)} L{axes.x(high)} {axes.y(high)}" stroke="#555"/>'
    yield f'<rect x="{LEFT}" y="{TOP}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#555"/>'
    yield f'<text x="{LEFT + SIZE / 2}" y="{TOP + SIZE + 42}" text-anchor="middle">measured step</text>'
    yield (f'<text transform="translate(16 {TOP + SIZE / 2}) rotate(-90)" text-anchor="middle">'
           "predicted step</text>")


def write_plot(rows, path):
    done = [row for row in rows if is_done(row)]
    if not done:
        return
    axes = Axes([predicted(row) for row in done] + [measured(row) for row in done])
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE + LEFT + 30}" height="{SIZE + TOP + 60}" '
             'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
             f'<text x="{LEFT}" y="24" font-size="15">Predicted against measured: {len(done)} layouts; '
             f"the band is ±{100 * MISS:.0f} %</text>", *frame(axes)]
    shapes = marks()
    for i, ((network,), case) in enumerate(groups(done, "network").items()):
        shape, color = shapes[i % len(shapes)], COLORS[i % len(COLORS)]
        style = f' fill="{color}" fill-opacity="0.65"'
        lines.append(shape(LEFT + 20, TOP + 20 + 18 * i) + style + "/>")
        lines.append(f'<text x="{LEFT + 32}" y="{TOP + 24 + 18 * i}">{network}, {len(case)} layouts</text>')
        lines += [shape(axes.x(measured(row)), axes.y(predicted(row))) + style +
                  f"><title>{describe(row)}</title></" + shape(0, 0)[1:].split()[0] + ">" for row in case]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="that has rows.csv; the plot is written there, too")
    folder = parser.parse_args().folder
    if not os.path.exists(os.path.join(folder, "rows.csv")):
        parser.error(f"{folder} has no rows.csv: tests/bench/accuracy writes it")
    rows = read_rows(os.path.join(folder, "rows.csv"))
    print_report(rows)
    write_plot(rows, os.path.join(folder, "accuracy.svg"))


if __name__ == "__main__":
    main()
