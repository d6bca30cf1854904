#!/usr/bin/env python3
"""The bench of collectives on one tiny size: what it reads, what it prints, and that losses are those of one rank.
usage: collectives_test.py BUILD; 77 where netlab can't play hosts"""
import argparse
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
loader = importlib.machinery.SourceFileLoader("collectives", os.path.join(HERE, "collectives"))
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("collectives", loader))
loader.exec_module(bench)


def check(name, got, wanted):
    if got != wanted:
        sys.exit(f"{name}: {got!r} instead of {wanted!r}")


def is_refused(size):
    try:
        bench.parse_size(size)
    except argparse.ArgumentTypeError:
        return True
    return False


def check_that_drifting_runs_are_made_again():
    """What was measured plays no part: a run counts whose two predictions agree, else the one where they are nearest.
    The link after one launch is the link before the next."""
    runs, launches = bench.Bench.__new__(bench.Bench), []
    links = iter([{"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1.05, "b": 2.0, "c": 2.0}, {"b": 2.1, "c": 2.4}, {"c": 4.0}])

    def run(_network, _ranks, cases, machine, steps=None):
        if steps is None:
            launches.append(cases)
        return [{"predicted_seconds": machine[case], "closed_seconds": None, "measured_seconds": len(launches)}
                for case in cases]

    runs.options = argparse.Namespace(drift=0.07, tries=3)
    runs.run = runs.run_undisturbed = run
    runs.link = lambda _network, _machine: next(links)
    remove, bench.os.remove = bench.os.remove, lambda _path: None
    try:
        rows = runs.run_between_links("here", ["a", "b", "c"], None)
    finally:
        bench.os.remove = remove
    check("launches", launches, [["a", "b", "c"], ["b", "c"], ["c"]])
    check("predictions", [round(row["predicted_seconds"], 6) for row in rows], [1.025, 2.05, 2.2])
    check("the launches that count", [row["measured_seconds"] for row in rows], [1, 2, 2])


def main():
    check("sizes", [bench.parse_size(size) for size in ("64KiB", "1MiB")], [65536, 1048576])
    check("refused sizes", [is_refused(size) for size in ("64", "2MiB", "0KiB", "-1KiB", "KiB")], [True] * 5)
    check("formats", [bench.format_size(size) for size in (4096, 65536, 1 << 28)], ["4 KiB", "64 KiB", "256 MiB"])

    check_that_drifting_runs_are_made_again()
    build = os.path.realpath(sys.argv[1])
    machine = os.path.join(bench.ROOT, "configs", "machines", "two-cores.json")
    command = [os.path.join(HERE, "collectives"), "--build", build, "--networks", "hosts", "--sizes", "4KiB",
               "--rounds", "1", "--steps", "3", "--links", "0", "--machine", machine]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if said.returncode == bench.SKIPPED:
        return bench.SKIPPED
    check("exit code", said.returncode, 0)
    rows = [line.split()[0] for line in said.stdout.splitlines() if line.split()[1:3] == ["4", "KiB"]]
    check("rows", rows, bench.KINDS)
    check("summary", "\n4 cases, " in said.stdout, True)

    runs = bench.Bench(bench.parse(["--build", build, "--steps", "3", "--links", "0"]), None)
    alone = runs.run("here", 1, [("all-reduce", "default", 4096)], None)[0]
    check("alone nothing is predicted", alone["predicted_seconds"], None)
    rows = runs.run("here", 2, [(kind, "default", 4096) for kind in bench.KINDS[:3]], machine)
    for kind, row in zip(bench.KINDS[:3], rows):
        check("kind", row["collective"], kind)
        check(f"{kind}: the loss is that of one rank", abs(row["loss"] / alone["loss"] - 1) < bench.SAME_LOSS, True)
        check(f"{kind}: times are above 0", min(row["predicted_seconds"], row["measured_seconds"]) > 0, True)
    with tempfile.TemporaryDirectory() as folder:
        runs = bench.Bench(bench.parse(["--build", build, "--steps", "3", "--links", "0.05", "--tries", "1"]), folder)
        row, = runs.rows("here", 2, [("all-reduce", "default", 4096)], machine)
        check("with the link measured there is a prediction", row["predicted_seconds"] > 0, True)
        check("and of two links", row["drift"] > 0, True)
        check("and what was measured", row["measured_seconds"] > 0, True)
        check("links that are left over", os.listdir(folder), [])
    return 0


if __name__ == "__main__":
    sys.exit(main())
