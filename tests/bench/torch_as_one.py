#!/usr/bin/env python3
"""Plans in PyTorch as one device, of models at the sizes that they have: what tests/frameworks/torch_plans.py checks of small ones.

usage: tests/frameworks/run torch tests/bench/torch_as_one.py CLEAVE TREE [--ranks 2,4,8] [--layouts 20] [--models NAME,...]
                                                              [--float] [--output FOLDER]

For every model and number of gloo ranks the plan that `search --for torch` finds and 20 that are drawn, half of them with
operators on some ranks alone; three steps of a batch of 8, in double (--float: in single precision).  A line says how far
off losses, gradients and parameters are, and what ranks sent: by what the program of the layout that is read back sends, on
meshes of one dimension of models whose every operator is a module; and by what `export` says that DTensor moves, on
any mesh.  Rows are kept in FOLDER (build/torch_as_one), one file for a model and a number of ranks, and the same command
goes on from there.  Ranks share the cores that there are: on two cores all of it takes hours, most of them AlexNet's.
"""
import argparse
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "frameworks"))
import torch_plans  # exits 77 without PyTorch

import models
import torch_models

MODELS = {"byte_gpt": torch_models.MODELS["gpt"], "llama": torch_models.MODELS["llama"],
          "recommender": torch_models.MODELS["recommender"],
          "vgg11": (lambda: models.Vgg11(64), 8, models.MODELS["vgg11"][1]),
          "resnet18": (lambda: models.ResNet18(64), 8, models.MODELS["resnet18"][1]), "alexnet": torch_models.MODELS["alexnet"]}


def rows_of(a, name, ranks):
    """Of plans that ran, which are all where the file has its last name."""
    file = os.path.join(a.output, f"{name}.{ranks}.{'float' if a.float else 'double'}.{a.layouts}")
    if not os.path.exists(file):
        if os.path.exists(file + ".part"):
            os.remove(file + ".part")
        try:
            torch_plans.main([a.cleave, a.tree, "--ranks", str(ranks), "--layouts", str(a.layouts), "--models", name, "--rows",
                              file + ".part", "--limit", "0", *(["--float"] if a.float else [])])
        except SystemExit as end:
            if not os.path.exists(file + ".part"):
                raise SystemExit(f"{name} on {ranks} ranks: no plan ran, exit {end.code}") from None
        with open(file + ".part", encoding="utf-8") as stream:
            rows = [json.loads(line) for line in stream]
        if len(rows) < a.layouts + 1:
            raise SystemExit(f"{name} on {ranks} ranks: of {a.layouts + 1} plans {len(rows)} ran")
        os.replace(file + ".part", file)
    with open(file, encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def span(shares):
    return f"{min(shares):.3f} to {max(shares):.3f} ({len(shares)})" if shares else "-"


def line(name, ranks, rows):
    worst = {what: max(row[what] for row in rows) for what in ("loss", "gradient", "parameter")}
    flat = [row for row in rows if len(row["mesh"]) <= 1]
    deep = [row for row in rows if len(row["mesh"]) > 1]
    return (f"{name:12} {ranks:5} {len(rows):5} {sum(bool(row['wrong']) for row in rows):5} {worst['loss']:8.1e} "
            f"{worst['gradient']:8.1e} {worst['parameter']:9.1e}  {span([r['bytes'] for r in flat if r['bytes_compared']]):20}  "
            f"{span([r['moved'] for r in flat if r['moved_compared']]):20}  {span([r['moved'] for r in deep if r['moved_compared']]):20}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cleave"), parser.add_argument("tree")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--layouts", type=int, default=20)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--float", action="store_true")
    parser.add_argument("--output", default=os.path.join("build", "torch_as_one"), metavar="FOLDER")
    a = parser.parse_args()
    os.makedirs(a.output, exist_ok=True)
    models.MODELS = {**models.MODELS, **{name: (make, data) for name, (make, _, data) in MODELS.items()}}
    models.ALL_MODULES += ("alexnet",)
    models.ALL_MOVES += ("alexnet", "resnet18", "byte_gpt")
    print(f"{'':12} {'':5} {'':5} {'':5} {'off by, at most':27}  {'bytes, by the':20}  {'bytes that move, by what export says':42}")
    print(f"{'model':12} {'ranks':>5} {'plans':>5} {'wrong':>5} {'loss':>8} {'gradient':>8} {'parameter':>9}  {'program (plans)':20}  "
          f"{'one dimension':20}  {'several':20}")
    wrong = 0
    for name in a.models.split(","):
        for ranks in map(int, a.ranks.split(",")):
            rows = rows_of(a, name, ranks)
            wrong += sum(bool(row["wrong"]) for row in rows)
            print(line(name, ranks, rows), flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
