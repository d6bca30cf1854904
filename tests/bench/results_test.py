#!/usr/bin/env python3
"""What tests/bench/results makes of figures that are known.  usage: results_test.py"""
import importlib.machinery
import importlib.util
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
loader = importlib.machinery.SourceFileLoader("results", os.path.join(HERE, "results"))
results = importlib.util.module_from_spec(importlib.util.spec_from_loader("results", loader))
loader.exec_module(results)


def case(model, devices, step, parallel, bound):
    return {"model": model, "devices": devices,
            "found": {"search_seconds": 0.76, "step_seconds": step, "lower_bound_seconds": bound,
                      "baselines": {"data-parallel": parallel, "one-weird-trick": None}}}


def main():
    cases = [case("alexnet", 4, 0.145, 0.1494, 0.142), case("nmt", 64, 0.00151, 1.22, 0.00121)]
    row = results.grid_row(cases[0])
    assert row == ["alexnet", "4", "0.8 s", "", "145 ms", "149 ms", "-", "1.03", "1.02"], row
    # README has the largest number of devices alone, with the published search.
    rows = results.readme_rows(cases).split("\n")
    assert len(rows) == 3 and rows[1] == "|" + "---|" * 9, rows
    assert rows[2] == "| nmt | 64 | 0.8 s | 2,190 s | 1.51 ms | 1.22 s | - | 807.95 | 1.25 |", rows[2]

    text = "before\n<!-- grid -->\nold\n\n<!-- end of grid -->\nafter\n"
    once = results.replace_section(text, "grid", "new \\1\n")
    assert once == "before\n<!-- grid -->\nnew \\1\n<!-- end of grid -->\nafter\n", once
    for broken in ("", text.replace("end of grid", "end"), text + text):
        try:
            results.replace_section(broken, "grid", "new")
        except ValueError:
            continue
        sys.exit(f"a section was found in {broken!r}")
    # Figures are of what the table says, without what is missing.
    shown = f"<!-- grid -->\n{results.table(results.GRID_HEAD, map(results.grid_row, cases))}\n\n*x*\n<!-- end of grid -->\n"
    points = results.figure_points(shown, "found / bound")
    assert points == [("alexnet", 4, 1.02), ("nmt", 64, 1.25)], points
    without = shown.replace(" 1.02 |", " - |")
    assert results.figure_points(without, "found / bound") == points[1:]
    # The documents have a section for every part that is measured, README the one that it shows, and figures are those
    # of the table.
    for name, parts in (("docs/results.md", [part for part in results.PARTS if part != "figures"]), ("README.md", ["grid"])):
        with open(os.path.join(results.ROOT, name), encoding="utf-8") as file:
            document = file.read()
        for part in parts:
            results.replace_section(document, part, "new")
        for file, *_ in results.FIGURES if name == "docs/results.md" else []:
            assert f"(figures/{file})" in document, file
            assert os.path.exists(os.path.join(results.ROOT, "docs", "figures", file)), file


if __name__ == "__main__":
    main()
