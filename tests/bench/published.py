#!/usr/bin/env python3
"""Published runs against predictions: the table of `cleave validate` for measurements that others made.

FOLDER has their files (simumax_b200.csv, torchtitan.csv, llm_foundry_mpt.csv, mist_l4.csv, sailor_validation.csv,
megatron_seqsel_fig1_memory.csv, and mist_node_database, the kernels in mist/node_database of Mist's repository; and
inference.csv, passes forward on one device that NVIDIA's DeepLearningExamples report, with the columns name, model (a
file of configs/models or a config.json), machine, precision, batch, sequence, attention, framework, measured_ms and
source); those that are missing are left out, and without the folder nothing is done.  Each
source becomes one RUNS.csv, in a temporary folder or in --keep: a row for a row, what the source says in the words of
docs/formats.md, and what Cleave has no word for as `besides`, so that no row is lost.  Nothing is fitted: prices are
those of configs/machines.

What the sources leave open is filled in as follows:
  framework  that of the runs; SimuMax's are of Megatron-LM with its loss fused ("cef" in their names), torchtitan's without a compiler PyTorch's.
  all        sums of activations are sent in bf16, of gradients of weights in f32 (MPT's "PURE": all in bf16).
  MPT        as GPT-2: biases and a dropout of 0 are the only differences that cost anything, and they cost little.
             Attention in Triton, the default of the script that submitted these runs, but for the large ones of January
             2024 that its sweep asks "flash" for: see TRITON.
  torchtitan "selective" keeps every other product and attention: `alternate`.
  Mist       fp16 as bf16, gradients too, since its files say float16 of parameters and float32 of the optimizer alone;
             L4s at 1,050 MHz, as its README has them set; the row without a plan has that of its test-small-base.yaml.
  Sailor     OPT and GPT-Neo as StarCoder2 without biases, whose code is alike but for rotary positions, which cost two small kernels a layer (theirs are a
             table, which is left out), with what theirs has otherwise; stages send shares of activations (see with_shares); in f32 (DeepSpeed without "fp16", in NVIDIA's container, which multiplies it in
             TF32) and with stored scores, as its code has them; its masks are kernels of their own, since Megatron's fused softmax
             takes 16 bits alone (FusedScaleMaskSoftmax).  Its memory is what nvidia-smi says of the device (the
             first figure of its log's last line); what its own simulator adds for what is not the allocator's is taken off
             it, see BESIDES_TORCH, and the rest held against what the allocator reserves.

--kernels holds the tables of the machine files against the kernels and collectives that they were made of.
--ablate leaves one effect after the other out, by editing the machine's file or the rows (bubbles by their formula), and only reports.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

import published_page
from published_kernels import kernels_table
from published_sources import SOURCES, TITAN_MODELS, TREE, llama, machine, read

COLUMNS = ["group", "name", "model", "machine", "devices", "sequence", "batch", "micro_batch", "data", "tensor",
           "pipeline", "virtual", "layers", "context", "expert", "sequence_parallel", "schedule", "recompute", "sharding", "precision",
           "reduce_precision", "attention", "framework", "besides", "step", "memory", "reserved"]


def unlike(folder, name, kinds):
    """rtx-4x8.json with a node of eight, or fewer, for each (kind, devices)."""
    with open(machine("rtx")) as file:
        content = json.load(file)
    nodes = {node["kind"]: node for node in content["nodes"]}
    content["nodes"] = []
    for kind, devices in kinds:
        node = json.loads(json.dumps(nodes[kind]))
        node["devices"] = devices
        for link in node["links"]:
            there = [[v for v in group if isinstance(v, str) or v < devices] for group in link["join"]]
            link["join"] = [group for group in there if len(group) > 1]
        node["links"] = [link for link in node["links"] if link["join"]]
        content["nodes"].append(node)
    path = os.path.join(folder, name + ".json")
    with open(path, "w") as file:
        json.dump(content, file)
    return path


# How many times as quick FlashAttention-2 is as FlashAttention in Triton: "around 1.3-1.5" forward, of which the middle
# is taken, and "around 2" backward, on an A100 (Dao 2023, 4.1).
TRITON = {"attention": 1.4, "attention backward": 2.0}


def with_triton(folder, path):
    """A machine whose attention is FlashAttention in Triton, not the version 2 of the file that ships."""
    with open(path) as file:
        content = json.load(file)
    for kind in content["kinds"].values():
        for name, quicker in TRITON.items():
            kind["efficiency"][name] = [[flops, share / quicker] for flops, share in kind["efficiency"][name]]
    path = os.path.join(folder, "triton-" + os.path.basename(path))
    with open(path, "w") as file:
        json.dump(content, file)
    return path


def scaled(quantity, factor):
    number, unit = quantity.split()
    return f"{float(number) * factor:g} {unit}"


def with_shares(folder, path, tensor):
    """A machine for stages that send shares of an activation, one by each of the devices that have it as a whole, where ours
    sends it whole to each: links between nodes are so much quicker for messages, and as they are for collectives."""
    with open(path) as file:
        content = json.load(file)
    network = content["network"] if isinstance(content["network"], list) else [content["network"]]
    nodes = content.get("nodes") or [content["node"]]
    for links in [network] + [[link for link in node["links"] if "card" in json.dumps(link["join"])] for node in nodes]:
        for link in links:
            if "bandwidth" in link:
                link["bandwidth"] = scaled(link["bandwidth"], tensor)
    content["collectives"]["between"]["share"] /= tensor
    path = os.path.join(folder, f"shares-{tensor}-" + os.path.basename(path))
    with open(path, "w") as file:
        json.dump(content, file)
    return path


# ---- tables ----------------------------------------------------------------------------------------------------------

def write(path, runs, change=None):
    """The runs as RUNS.csv; those whose device has no file are refused by it."""
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, extrasaction="ignore", restval="")
        table.writeheader()
        for run in runs:
            row = dict(run, model=json.dumps(run["model"]))
            row["machine"] = machine(run["kind"])
            if "nodes" in run:
                kinds = "-".join(f"{kind}x{devices}" for kind, devices in run["nodes"])
                row["machine"] = unlike(os.path.dirname(path), kinds, run["nodes"])
            if run.get("kernels") == "triton":
                row["machine"] = with_triton(os.path.dirname(path), row["machine"])
            if run.get("shares"):
                row["machine"] = with_shares(os.path.dirname(path), row["machine"], int(run["tensor"]))
            if row["machine"] is None:
                row.update(machine=f"{run['kind']}.json",
                           besides=row.get("besides") or f"no machine file of {run['kind']} ships")
            if change is not None:
                change(row)
            table.writerow(row)


def validate(cleave, path):
    """A run that needs more than 8 GiB to be priced is refused by that."""
    done = subprocess.run([cleave, "validate", path, "--json"], stdout=subprocess.PIPE,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)))
    if done.returncode == 3:
        return None
    if done.returncode != 0:
        sys.exit(f"cleave validate {path}: exit {done.returncode}")
    return json.loads(done.stdout)


def quantile(ordered, q):
    """As base/accuracy.c: linear between the nearest."""
    at = q * (len(ordered) - 1)
    low = int(at)
    return ordered[low] + (at - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def accuracy(runs, key):
    """What `cleave validate` says of a group, or of all, from its runs."""
    compared = [(run[key], run["measured_" + key], run["group"]) for run in runs if run.get("measured_" + key)]
    if not compared:
        return None
    off = sorted(predicted / measured - 1 for predicted, measured, _ in compared)
    errors = sorted(abs(x) for x in off)
    pairs = signs = 0
    for i, (p, m, group) in enumerate(compared):
        for other_p, other_m, other in compared[:i]:
            if group == other and max(m, other_m) > 1.05 * min(m, other_m):
                pairs += 1
                signs += ((p > other_p) - (p < other_p)) * (1 if m > other_m else -1)
    return {"compared": len(compared), "median_error": quantile(errors, 0.5), "ninth_decile_error": quantile(errors, 0.9),
            "median_bias": quantile(off, 0.5), "pairs": pairs, "tau": signs / pairs if pairs else None}


def merge(results):
    """Results of parts of a table as one of the whole."""
    runs = sorted((run for result in results if result for run in result["runs"]), key=lambda run: run["line"])
    names = list(dict.fromkeys(run["group"] for run in runs))
    groups = []
    for name in names + ([None] if len(names) > 1 else []):
        of = [run for run in runs if name in (None, run["group"])]
        priced = [run for run in of if "refused" not in run]
        groups.append({"group": name, "runs": len(of), "priced": len(priced),
                       **{what: accuracy(priced, key) for what, key in
                          (("step", "step_seconds"), ("memory", "memory_bytes"), ("reserved", "reserved_bytes"))}})
    return {"runs": runs, "groups": groups} if any(group["priced"] for group in groups) else None


def validate_parts(cleave, path, n_jobs):
    """The rows are dealt out to so many processes."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    n_jobs = min(n_jobs, len(rows))
    if n_jobs < 2:
        return validate(cleave, path)

    def part(j):
        mine = f"{path}.{j}.csv"
        with open(mine, "w", newline="") as file:
            table = csv.DictWriter(file, COLUMNS)
            table.writeheader()
            table.writerows(rows[j::n_jobs])
        result = validate(cleave, mine) or {"runs": [
            {"line": 2 + i, "group": row["group"], "name": row["name"],
             "refused": row["besides"] or "none of the rows that were priced together could be"}
            for i, row in enumerate(rows[j::n_jobs])]}
        for run in result["runs"]:
            run["line"] = 2 + j + n_jobs * (run["line"] - 2)
        return result

    with concurrent.futures.ThreadPoolExecutor(n_jobs) as pool:
        return merge(pool.map(part, range(n_jobs)))


def overall(result):
    return result["groups"][-1]


def percent(of, key):
    return "-" if of is None else f"{100 * of[key]:.1f} %"


def describe(source, result, runs):
    """One line of a source, and why rows were refused."""
    if result is None:
        return [source, len(runs), 0, *"--------"]
    of = overall(result)
    step, memory, reserved = of["step"], of["memory"], of["reserved"]
    tau = "-" if step is None or step["tau"] is None else f"{step['tau']:.2f}"
    return [source, of["runs"], of["priced"], percent(step, "median_error"), percent(step, "ninth_decile_error"),
            tau, step["pairs"] if step else "-", percent(memory, "median_error"), percent(memory, "ninth_decile_error"),
            percent(reserved, "median_error"), percent(reserved, "ninth_decile_error")]


def reasons(result):
    counted = {}
    for run in result["runs"] if result else []:
        if "refused" in run:
            counted[run["refused"]] = counted.get(run["refused"], 0) + 1
    return counted


def print_table(rows):
    widths = [max(len(str(row[c])) for row in rows) for c in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(x).ljust(w) if c == 0 else str(x).rjust(w) for c, (x, w) in enumerate(zip(row, widths))))


# ---- effects that are left out ---------------------------------------------------------------------------------------

def change_rows(key, value):
    def change(row):
        row[key] = value
    return change


def change_machine(folder, edit):
    """Rows whose machine is an edited copy."""
    def change(row):
        if not os.path.isfile(row["machine"]):
            return
        with open(row["machine"]) as file:
            content = json.load(file)
        edit(content)
        row["machine"] = os.path.join(folder, f"{edit.__name__}-" + os.path.basename(row["machine"]))
        with open(row["machine"], "w") as file:
            json.dump(content, file)
    return change


def without_memory_bound(content):
    for kind in content["kinds"].values():
        kind["memory_bandwidth"] = "1000000 GB/s"


def without_launch(content):
    for kind in content["kinds"].values():
        kind["launch"] = "0 us"


def without_links(content):
    network = content.get("network", [])
    links = [link for node in content.get("nodes") or [content["node"]] for link in node["links"]]
    for link in links + (network if isinstance(network, list) else [network]):
        if "bandwidth" in link:
            link["bandwidth"] = "1000000 GB/s"
        link["latency"] = "0 us"
    if "collectives" in content:
        for span in content["collectives"]["within"]:
            span.update(bandwidth="1000000 GB/s", latency="0 us")
        content["collectives"]["between"] = {"share": 1, "latency": "0 us"}


def flat_efficiency(content):
    """One figure for all shapes: what the curve says of large ones."""
    for kind in content["kinds"].values():
        share = kind["efficiency"]
        for name, table in share.items():
            share[name] = table[-1][1] if isinstance(table, list) else table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="of the published measurements")
    parser.add_argument("--cleave", default=os.path.join(TREE, "build", "cleave"), help="the program")
    parser.add_argument("--only", default=",".join(SOURCES), help="sources, between commas")
    parser.add_argument("--ablate", nargs="?", const=",".join(SOURCES), default="", metavar="SOURCES",
                        help="leave one effect after the other out, of all sources or of those between commas")
    parser.add_argument("--kernels", action="store_true", help="only hold tables against kernels")
    parser.add_argument("--page", help="write all that is found to this page")
    parser.add_argument("--plan", type=int, default=0, metavar="SECONDS", help="also search, so long each, for plans of torchtitan's models")
    parser.add_argument("--most-devices", type=int, default=1 << 20, metavar="N",
                        help="price no run of more: some take minutes")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that price the rows of a source")
    parser.add_argument("--keep", help="folder for the tables that are made")
    parser.add_argument("--reuse", action="store_true", help="take the results that are in that folder already")
    options = parser.parse_args()
    if not os.path.isdir(options.folder):
        print(f"skipped: {options.folder} is no folder of published measurements")
        return
    if options.kernels:
        print_table(kernels_table(options.folder))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        os.makedirs(folder, exist_ok=True)
        bench(options, folder)


def priced(options, path):
    """What is predicted of a table, and kept beside it; with --reuse what lies there already."""
    kept = re.sub("csv$", "json", path)
    if options.reuse and os.path.isfile(kept):
        with open(kept) as file:
            return json.load(file)
    result = validate_parts(options.cleave, path, options.jobs)
    with open(kept, "w") as out:
        json.dump(result, out, indent=1)
    return result


# Batches that torchtitan's table has, of texts of 8,192 tokens, on as many H100s or half of them.
PLANS = [("Llama3.1-8B", 64, 128), ("Llama3.1-70B", 256, 512), ("Llama3.1-405B", 512, 256)]


def plan(options, folder):
    """What a search finds: (model, devices, batch, its JSON or None where it found nothing)."""
    for name, devices, batch in PLANS:
        kept, model = (os.path.join(folder, f"plan-{name}{end}.json") for end in ("", "-model"))
        if not (options.reuse and os.path.isfile(kept)):
            with open(model, "w") as file:
                json.dump(llama(*TITAN_MODELS[name]), file)
            with open(kept, "w") as out:
                subprocess.run([options.cleave, "search", "--model", model, "--sequence", "8192", "--batch", str(batch), "--machine",
                                machine("h100-500w"), "--devices", str(devices), "--precision", "bf16", "--reduce-precision", "mixed",
                                "--framework", "torchtitan", "--optimizer", "adamw", "--time", str(options.plan), "--json", "-o",
                                os.path.join(folder, "plan.layout.json")], stdout=out)
        with open(kept) as file:
            text = file.read()
        yield name, devices, batch, json.loads(text) if text else None


def passes_forward(options, folder):
    """Passes forward on one device: (row of inference.csv, predicted seconds)."""
    for row in read(options.folder, "inference.csv") if os.path.isfile(os.path.join(options.folder, "inference.csv")) else []:
        model = os.path.join(TREE, "configs", "models", row["model"])
        if row["model"].startswith("{"):
            model = os.path.join(folder, "forward-model.json")
            with open(model, "w") as file:
                file.write(row["model"])
        words = [word for name in ("sequence", "attention") if row[name] for word in ("--" + name, row[name])]
        done = subprocess.run([options.cleave, "search", "--forward", "--model", model, "--batch", row["batch"], "--machine", machine(row["machine"]),
                               "--devices", "1", "--method", "single", "--precision", row["precision"], "--framework", row["framework"],
                               *words, "--json", "--quiet", "-o", os.path.join(folder, "forward.layout.json")],
                              stdout=subprocess.PIPE, check=True)
        yield row, json.loads(done.stdout)["step_seconds"]


def bench(options, folder):
    table = [["source", "rows", "priced", "step: median", "90 %", "tau", "pairs", "memory: median", "90 %",
              "reserved: median", "90 %"]]
    why, runs_of, results = [], {}, {}
    for source in options.only.split(","):
        file, rows_of = SOURCES[source]
        if not os.path.isfile(os.path.join(options.folder, file)):
            why.append(f"{source}: skipped: {file} is not in {options.folder}")
            continue
        runs = runs_of[source] = list(rows_of(options.folder))
        for run in runs:
            devices = int(run.get("devices") or int(run["data"]) * int(run["tensor"]) * int(run["pipeline"]))
            if devices > options.most_devices and not run.get("besides"):
                run["besides"] = f"more than {options.most_devices} devices: left out of this table"
        path = os.path.join(folder, source + ".csv")
        write(path, runs)
        result = results[source] = priced(options, path)
        table.append(describe(source, result, runs))
        why += [f"{source}: {n} not priced: {reason}" for reason, n in reasons(result).items()]
    print_table(table)
    print("\n".join(why))
    effects = ablate(options, folder, runs_of, results) if options.ablate else None
    plans = list(plan(options, folder)) if options.plan else []
    forward = list(passes_forward(options, folder))
    print_table(published_page.passes(forward))
    if options.page:
        published_page.write(options.page, {"tree": TREE, "table": table, "results": results, "why": why,
                                            "kernels": kernels_table(options.folder),
                                            "effects": effects, "plans": plans, "forward": forward})


def without_bubbles(result, runs):
    """Steps as if the stages of a pipeline never waited for each other: of 1F1B's m + (p - 1) / v rounds, m."""
    busy = []
    for run in result["runs"]:
        row = runs[run["line"] - 2]
        stages, data = int(row.get("pipeline") or 1), int(row.get("data") or row.get("devices") or 1)
        rounds = int(row["batch"]) / data / int(row.get("micro_batch") or 1)
        if "refused" not in run:
            busy.append(dict(run, step_seconds=run["step_seconds"] * rounds / (rounds + (stages - 1) / int(row.get("virtual") or 1))))
    return accuracy(busy, "step_seconds")


def ablate(options, folder, runs_of, results):
    """The median error of the step of each source where an effect is left out."""
    sources = [source for source in options.ablate.split(",") if source in runs_of]
    left_out = {"efficiency by shape": change_machine(folder, flat_efficiency),
                "memory-bound kernels": change_machine(folder, without_memory_bound),
                "launches": change_machine(folder, without_launch), "links": change_machine(folder, without_links),
                "layers of stages": change_rows("layers", ""), "recomputation": change_rows("recompute", "none")}
    effects = [["left out", *sources], ["nothing"], ["bubbles"], *([effect] for effect in left_out)]
    for source in sources:
        steps = [overall(results[source])["step"], without_bubbles(results[source], runs_of[source])]
        for i, change in enumerate(left_out.values()):
            path = os.path.join(folder, f"{source}-without-{i}.csv")
            write(path, runs_of[source], change)
            result = priced(options, path)
            steps.append(overall(result)["step"] if result else None)
        for row, step in zip(effects[1:], steps):
            row.append(percent(step, "median_error"))
    print("\nMedian error of the step where an effect is left out:")
    print_table(effects)
    return effects


if __name__ == "__main__":
    main()
