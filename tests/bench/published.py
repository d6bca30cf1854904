#!/usr/bin/env python3
"""Published runs against predictions: the table of `cleave validate` for measurements that others made.

FOLDER has their files (simumax_b200.csv, torchtitan.csv, llm_foundry_mpt.csv, mist_l4.csv, sailor_validation.csv,
megatron_seqsel_fig1_memory.csv, and mist_node_database, the kernels in mist/node_database of Mist's repository); those
that are missing are left out, and without the folder nothing is done.  Each
source becomes one RUNS.csv, in a temporary folder or in --keep: a row for a row, what the source says in the words of
docs/formats.md, and what Cleave has no word for as `besides`, so that no row is lost.  Nothing is fitted: prices are
those of configs/machines.

What the sources leave open is filled in as follows:
  all        sums of activations are sent in bf16, of gradients of weights in f32 (MPT's "PURE": all in bf16).
  MPT        as GPT-2: biases and a dropout of 0 are the only differences that cost anything, and they cost little.
             Attention in Triton, the default of the script that submitted these runs, but for the large ones of January
             2024 that its sweep asks "flash" for: see TRITON.
  torchtitan "selective" keeps every other product and attention: `alternate`.
  Mist       fp16 as bf16, gradients too, since its files say float16 of parameters and float32 of the optimizer alone;
             L4s at 1,050 MHz, as its README has them set; the row without a plan has that of its test-small-base.yaml.
  Sailor     OPT and GPT-Neo as GPT-2, in f32 (DeepSpeed without "fp16", in NVIDIA's container, which multiplies it in
             TF32) and with stored scores, as its code has them.  Its memory is what nvidia-smi says of the device (the
             first figure of its log's last line); what its own simulator adds for what is not the allocator's is taken off
             it, see BESIDES_TORCH, and the rest held against what the allocator reserves.

--kernels holds the tables of the machine files against the kernels and collectives that they were made of.
--ablate leaves one effect after the other out, by editing the machine's file or the rows (bubbles by their formula), and only reports.
"""
import argparse
import concurrent.futures
import csv
import glob
import json
import math
import os
import re
import resource
import subprocess
import sys
import statistics
import tempfile

import published_page

TREE = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
COLUMNS = ["group", "name", "model", "machine", "devices", "sequence", "batch", "micro_batch", "data", "tensor",
           "pipeline", "virtual", "layers", "context", "expert", "sequence_parallel", "schedule", "recompute", "sharding", "precision",
           "reduce_precision", "attention", "framework", "besides", "step", "memory", "reserved"]
MIB = 1024 * 1024


def llama(layers, width, inner, heads, kv_heads, vocabulary):
    return {"model_type": "llama", "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads, "vocab_size": vocabulary,
            "max_position_embeddings": 1 << 20, "tie_word_embeddings": False}


def deepseek(layers, sequence, of):
    """Megatron's own: a first layer without experts, and as many rows for an expert as an even choice fills."""
    return {"model_type": "deepseek_v3", "hidden_size": of["hidden_size"], "intermediate_size": of["intermediate_size"],
            "num_hidden_layers": layers, "first_k_dense_replace": 1, "num_attention_heads": of["head_num"],
            "num_key_value_heads": of["kv_head_num"], "vocab_size": of["vocab_size"],
            "n_routed_experts": of["expert_num"], "num_experts_per_tok": of["topk"], "n_group": 8, "topk_group": 3,
            "n_shared_experts": of["moe_shared_expert_intermediate_size"] // of["moe_ffn_hidden_size"],
            "moe_intermediate_size": of["moe_ffn_hidden_size"], "q_lora_rank": of["q_lora_rank"],
            "kv_lora_rank": of["kv_lora_rank"], "qk_nope_head_dim": of["qk_head_dim"],
            "qk_rope_head_dim": of["qk_pos_emb_head_dim"], "v_head_dim": of["v_head_dim"],
            "rope_interleave": False, "max_position_embeddings": 1 << 20,
            "expert_capacity": -(-sequence * of["topk"] // of["expert_num"]),
            "tie_word_embeddings": False}


def gpt2(layers, width, heads, vocabulary, sequence, dropout=0.0):
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads, "vocab_size": vocabulary,
            "n_positions": sequence, "attn_pdrop": dropout, "resid_pdrop": dropout, "embd_pdrop": dropout}


def unlike(folder, name, kinds):
    """rtx-4x8.json with a node of eight, or fewer, for each (kind, devices)."""
    with open(machine("rtx")) as file:
        content = json.load(file)
    nodes = {node["kind"]: node for node in content["nodes"]}
    content["nodes"] = []
    for kind, devices in kinds:
        node = json.loads(json.dumps(nodes[kind]))
        node["devices"] = devices
        node["links"][0]["join"] = [[*range(devices), "card"]]
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


def machine(kind):
    """The file that ships for a kind of device: KIND-NODESxDEVICES.json."""
    found = [path for path in glob.glob(os.path.join(TREE, "configs", "machines", kind + "-*.json"))
             if re.fullmatch(re.escape(kind) + r"-\d+x\d+\.json", os.path.basename(path))]
    return found[0] if found else None


def read(folder, name):
    with open(os.path.join(folder, name), newline="") as file:
        return list(csv.DictReader(file))


# ---- sources: each gives rows, of which `kind` names the device -------------------------------------------------------

def simumax(folder):
    models = {row["model"]: json.loads(row["config_json"]) for row in read(folder, "simumax_models.csv")}
    for row in read(folder, "simumax_b200.csv"):
        of = next((models[m] for m in models if m.startswith(row["model"])), None)
        data, micro_batch = int(row["dp"]), int(row["mbs"])
        run = {"kind": "b200", "group": f"simumax {row['model']}", "name": row["case"].replace("_cef", ""),
               "sequence": row["seq"], "batch": data * micro_batch * int(row["microbatches"]),
               "micro_batch": micro_batch, "data": data, "tensor": row["tp"], "pipeline": row["pp"],
               "context": row["cp"], "expert": row["ep"], "sharding": 1, "precision": "bf16", "reduce_precision": "mixed", "step": f"{row['measured_ms']} ms",
               "memory": f"{float(row['max_rank_alloc_mb']) * MIB:.0f}"}
        if int(row["pp"]) > 1:
            run["layers"] = "|".join([str(int(row["layers"]) // int(row["pp"]))] * int(row["pp"]))
        if of["model_type"] == "dense":
            run["model"] = llama(int(row["layers"]), of["hidden_size"], of["intermediate_size"], of["head_num"],
                                 of["kv_head_num"], of["vocab_size"])
        else:
            run["model"] = deepseek(int(row["layers"]), int(row["seq"]), of)
        yield run


TITAN_MODELS = {"Llama3.1-8B": (32, 4096, 14336, 32, 8, 128256), "Llama3.1-70B": (80, 8192, 28672, 64, 8, 128256),
                "Llama3.1-405B": (126, 16384, 53248, 128, 8, 128256)}


def torchtitan(folder):
    for row in read(folder, "torchtitan.csv"):
        gpus, sequence, batch = int(row["gpus"]), int(row["seq"]), int(row["gbs"])
        step = batch * sequence / (gpus * float(row["measured_tokens_s_gpu"]))
        techniques = row["techniques"]
        besides = ("products in 8 bits" if re.search("float8|fp8", techniques) else
                   "asynchronous tensor parallelism" if "asyncTP" in techniques else "")
        schedule = row["pp_schedule"].lower()
        yield {"kind": "h200" if row["hardware"].startswith("H200") else "h100-500w",
               "group": f"torchtitan {row['model']} {gpus}", "name": f"{row['model']} {gpus} {techniques}",
               "model": llama(*TITAN_MODELS[row["model"]]), "devices": gpus, "sequence": sequence, "batch": batch,
               "micro_batch": batch // int(row["fsdp_dp"]) // (int(row["local_batch"]) if int(row["pp"]) > 1 else 1),
               "data": row["fsdp_dp"], "tensor": row["tp"], "pipeline": row["pp"], "context": row["cp"],
               "virtual": 2 if schedule.startswith("interleaved") else 1,
               "framework": "compiled" if "compile" in techniques else "eager",
               "recompute": "alternate" if row["act_ckpt"].startswith("selective") else row["act_ckpt"],
               "sharding": 3, "precision": "bf16", "reduce_precision": "mixed", "besides": besides, "step": f"{step:.9g}",
               "reserved": f"{row['measured_mem_gib']} GiB" if row["measured_mem_gib"] else ""}


def llm_foundry(folder):
    sizes = {re.search("mpt-(.*).yaml", row["yaml"]).group(1): row
             for row in read(folder, "llm_foundry_mpt_arch.csv") if "mpt-" in row["yaml"]}
    kinds = {"h100_80gb": "h100", "a100_80gb": "a100", "a100_40gb": "a100-40"}
    for row in read(folder, "llm_foundry_mpt.csv"):
        of, gpus, sequence = sizes[row["model"]], int(row["gpus"]), int(row["seq"])
        in_2024 = "Large Scale" in row["section"] and row["model"] in ("1b", "3b", "7b", "70b")
        besides = "products in 8 bits" if "fp8" in row["precision"] else \
            "activations are moved to the host" if row["act_offload"] == "True" else ""
        yield {"kind": kinds[row["gpu"]], "group": f"MPT {row['model']} {row['gpu']}",
               "name": f"{row['model']} {row['gpu']} x{gpus} {sequence} {row['mbs']}",
               "model": gpt2(int(of["n_layers"]), int(of["d_model"]), int(of["n_heads"]), int(of["vocab"]), sequence),
               "devices": gpus, "sequence": sequence, "batch": row["gbs"], "micro_batch": row["mbs"],
               "recompute": "full" if row["act_ckpt"] == "True" else "none",
               "sharding": 3 if row["sharding"] == "FULL_SHARD" else 2, "precision": "bf16",
               "reduce_precision": "bf16" if row["mp_mode"] == "PURE" else "f32",
               "kernels": "flash" if in_2024 else "triton", "besides": besides, "step": row["derived_step_s"]}


def mist(folder):
    widths = {"1.3b": (24, 2048, 16), "2.7b": (32, 2560, 32), "7b": (32, 4096, 32)}
    for row in read(folder, "mist_l4.csv"):
        layers, width, heads = widths[row["size"]]
        text = row["config_yaml"]
        numbers = {key: [float(x) for x in re.findall(r"- (-?[\d.]+)", part)]
                   for key, part in re.findall(r"(\w+): ((?:- )+-?[\d.]+(?: (?:- )+-?[\d.]+)*)", text)}
        run = {"kind": "l4-1050mhz", "group": f"Mist {row['family']} {row['size']}",
               "name": f"{row['family']} {row['size']} x{row['gpus']}{' flash' if row['flash'] == 'True' else ''}",
               "devices": row["gpus"], "sequence": row["seq"] or 2048, "batch": row["gbs"], "sharding": 0, "recompute": "none",
               "precision": "bf16", "reduce_precision": "bf16", "attention": "fused" if row["flash"] == "True" else "stored",
               "step": row["measured_iter_s"], "memory": ""}
        peaks = [float(x) for x in re.findall(r"[\d.]+", row["stage_peak_alloc"])]
        run["memory"] = f"{max(peaks) * MIB:.0f}" if peaks else ""
        reserved = [float(x) for x in re.findall(r"[\d.]+", row["stage_peak_reserved"])]
        run["reserved"] = f"{max(reserved) * MIB:.0f}" if reserved else ""
        run["model"] = gpt2(layers, width, heads, 50304, 2048) if row["family"] == "gpt" else \
            llama(layers, width, {"1.3b": 5632, "2.7b": 6912, "7b": 11008}[row["size"]], heads, heads, 50304)
        if "stage_strategies" not in numbers:
            run.update(data=2, micro_batch=8, batch=32, sharding=1, recompute="full")
            yield run
            continue
        plan, stages = numbers["stage_strategies"], len(numbers["layer_partitions"])
        each = [plan[10 * s:10 * s + 10] for s in range(stages)]
        micro_batch, data, tensor, weights, gradients, updates = (int(x) for x in each[0][:6])
        run["sharding"] = 3 if weights else 2 if gradients else updates
        run.update(pipeline=stages, data=data, tensor=tensor, micro_batch=micro_batch,
                   layers="|".join(f"{n:.0f}" for n in numbers["layer_partitions"]) if stages > 1 else "")
        if any(sum(stage[6:]) > 0 for stage in each):
            run["besides"] = "state or activations are moved to the host"
        elif any(numbers["gradient_checkpointing"]):
            run["besides"] = "some layers of some stages are recomputed"
        yield run


# What Sailor's own simulator counts beside torch's memory: "for fused kernel loading, depends on GPU + platform" where it
# foretells the memory of its GH200s, "shown in nvidia-smi, but not as part of torch mem" of tensor parallelism where it
# looks whether other plans fit.
BESIDES_TORCH = {"gh200": 5.06e9, "rtx": 3.0e9}


def sailor(folder):
    sizes = {"OPT-350M": (24, 1024, 16, 50272), "GPT-NEO-2.7B": (32, 2560, 20, 50257)}
    for row in read(folder, "sailor_validation.csv"):
        tensor = re.findall(r"tp(\d+)", row["stage_replicas_gpuxcount_tp"])
        layers, width, heads, vocabulary = sizes[row["model"]]
        run = {"kind": "gh200" if "GH" in row["cluster"] else "rtx", "group": f"Sailor {row['model']}",
               "name": f"{row['model']} {row['cluster'].split()[0]} N{row['nodes']} pp{row['pp']} mbs{row['mbs']}",
               "model": gpt2(layers, width, heads, vocabulary, 2048), "sequence": 2048, "batch": row["gbs"],
               "micro_batch": row["mbs"], "data": row["dp_per_stage"].split("|")[0], "tensor": tensor[0],
               "pipeline": row["pp"], "sequence_parallel": "no", "precision": "f32", "attention": "stored",
               "step": row["measured_iter_s"]}
        run["reserved"] = f"{float(row['max_mem_bytes']) - BESIDES_TORCH[run['kind']]:.0f}"
        if int(row["pp"]) > 1:  # 0 is the embedding, the last is the head
            ends = [[int(n) for n in part.split("-")] for part in row["layers_per_stage"].split("|")]
            run["layers"] = "|".join(str(min(b, layers) - max(a, 1) + 1) for a, b in ends)
        if "GH" not in row["cluster"]:
            run["nodes"] = [(kind.lower(), int(n)) for kind, n in
                            re.findall(r"([\w-]+?)-?x(\d+)/tp", row["stage_replicas_gpuxcount_tp"])]
        yield run


def megatron(folder):
    """A formula, of what has to be kept: as many micro-batches as its pipeline has under way tell the same.  It counts
    masks of dropout, and what is dropped out of attention's weights."""
    sizes = {"megatron-22B": (48, 6144, 64), "gpt3-175B": (96, 12288, 96), "turing-530B": (105, 20480, 128),
             "megatron-1T": (128, 25600, 160)}
    for row in read(folder, "megatron_seqsel_fig1_memory.csv"):
        layers, width, heads = sizes[row["model"]]
        pipeline, micro_batch = int(row["pp"]), int(row["mbs"])
        micro_batches = min(int(row["gbs"]) // micro_batch, pipeline * (2 if int(row["vp"]) > 1 else 1))
        memory = float(row["params_opt_gib"]) + float(row["activations_gib"])
        yield {"kind": "a100", "group": "Megatron memory", "name": f"{row['model']} {row['mode']}",
               "model": gpt2(layers, width, heads, 51200, 2048, dropout=0.1), "devices": row["gpus"], "sequence": 2048,
               "batch": micro_batch * micro_batches, "micro_batch": micro_batch, "data": 1, "tensor": row["tp"],
               "pipeline": pipeline, "virtual": row["vp"],
               "layers": "|".join([str(layers // (pipeline * int(row["vp"])))] * pipeline * int(row["vp"]))
               if pipeline > 1 else "", "attention": "stored", "precision": "bf16", "reduce_precision": "mixed",
               "sharding": 0,
               "recompute": "selective" if row["recompute"] == "attn_only" else "none", "memory": f"{memory:.9g} GiB",
               "sequence_parallel": "no" if row["mode"] == "none" else "yes"}


SOURCES = {"simumax": ("simumax_b200.csv", simumax), "torchtitan": ("torchtitan.csv", torchtitan),
           "llm_foundry": ("llm_foundry_mpt.csv", llm_foundry), "mist": ("mist_l4.csv", mist),
           "sailor": ("sailor_validation.csv", sailor),
           "megatron": ("megatron_seqsel_fig1_memory.csv", megatron)}


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


# ---- tables against kernels ------------------------------------------------------------------------------------------

def look_up(table, size):
    """As costmodel/efficiency.c."""
    if not isinstance(table, list):
        return table
    for (low, at_low), (high, at_high) in zip(table, table[1:]):
        if size <= low:
            return at_low
        if size <= high:
            return at_low + (at_high - at_low) * math.log(size / low) / math.log(high / low)
    return table[-1][1]


def kernel_of(row, efficiency):
    """What the machine file says of a measured kernel: (which table, share, measured share); None of what has no table."""
    number = {key: int(n) for key, n in re.findall(r"(\w+)=(\d+)", row["shape"])}
    measured = float(row["measured_efficiency"])
    if row["op"] == "matmul" and number and measured > 0:
        name = "bf16 weight gradient" if "layout=NT" in row["shape"] else "bf16 product"
        return name, look_up(efficiency[name], min(number["m"], number["k"], number["n"])), measured
    if row["op"] in ("sdp_fwd", "sdp_bwd") and number:
        flops = number["batch"] * number["seq_len"] ** 2 * number["head_num"] * \
            (number["qk_head_dim"] + number["v_head_dim"])  # half of the scores are hidden, and not computed
        name, flops = ("attention", flops) if row["op"] == "sdp_fwd" else ("attention backward", 2.5 * flops)
        return name, look_up(efficiency[name], flops), measured / 2
    return None


def mist_kernels(folder, kind, cache):
    """(table, share that the machine file has, share that was measured) of kernels that Mist's authors timed on an L4."""
    with open(machine(kind)) as file:
        of = next(iter(json.load(file)["kinds"].values()))
    peak, efficiency = float(of["rates"]["fp16"].split()[0]) * 1e12, of["efficiency"]
    for path in glob.glob(os.path.join(folder, "mist_node_database", cache, "*.json")):
        with open(path) as file:
            timed = json.load(file)
        for key, times in timed.items():
            forward, backward = (times[way][1] for way in ("fwd", "bwd"))  # medians, seconds
            extents = [[int(n) for n in shape.split(", ")] for shape in re.findall(r"shape=\(([\d, ]+\d)\)", key)]
            if "fused_dense_func" in key and extents[0][0] > 0:
                (samples, tokens, inner), (columns, _) = extents[:2]
                smallest, flops = min(samples * tokens, inner, columns), 2 * samples * tokens * inner * columns
                for name, seconds in (("bf16 product", forward), ("bf16 weight gradient", backward - forward)):
                    yield name, look_up(efficiency[name], smallest), flops / seconds / peak
            elif "flash_attn_qkvpacked_func" in key and extents[0][0] > 0:
                samples, tokens, _, heads, width = extents[0]
                flops = samples * tokens ** 2 * heads * 2 * width  # half of the scores are hidden
                for name, more, seconds in (("attention", 1, forward), ("attention backward", 2.5, backward)):
                    yield name, look_up(efficiency[name], more * flops), more * flops / seconds / peak


def describe_errors(name, errors):
    errors = sorted(errors)
    return [name, len(errors), f"{100 * statistics.median(errors):.1f} %", f"{100 * errors[int(0.9 * len(errors))]:.1f} %"]


def kernels_table(folder):
    rows = [["table", "measured", "median error", "90 %"]]
    found = {}
    files = {"a100_pcie": "a100", "b200_bf16_ceperm": "b200"}
    for row in read(folder, "simumax_kernel_efficiency.csv"):
        with open(machine(files[row["system"]])) as file:
            kind = next(iter(json.load(file)["kinds"].values()))
        said = kernel_of(row, kind["efficiency"])
        if said is not None:
            found.setdefault(f"{files[row['system']]}: {said[0]}", []).append(abs(said[1] / said[2] - 1))
    for kind, cache in (("l4", "_backup_cache_NVIDIA_L4"), ("l4-1050mhz", "cache_NVIDIA_L4")):
        for name, said, measured in mist_kernels(folder, kind, cache):
            found.setdefault(f"{kind}: {name}", []).append(abs(said / measured - 1))
    with open(machine("a100")) as file:
        spans = {s["devices"]: s for s in json.load(file)["collectives"]["within"]}
    for row in read(folder, "vtrain_nccl_allreduce.csv"):
        n = int(row["gpus"])
        if row["gpu"] != "a100" or n not in spans:
            continue
        bandwidth, latency = (float(spans[n][key].split()[0]) for key in ("bandwidth", "latency"))
        seconds = latency * 1e-6 + 2 * (n - 1) / n * int(row["bytes"]) / (bandwidth * 1e9)
        if float(row["in_place_us"]) > 0:
            found.setdefault(f"a100: all-reduce of {n}", []).append(abs(seconds / float(row["in_place_us"]) * 1e6 - 1))
    return rows + [describe_errors(name, errors) for name, errors in found.items()]


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
        content["collectives"].setdefault("between", {"share": 1})["latency"] = "0 us"


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
                                "--optimizer", "adamw", "--time", str(options.plan), "--json", "-o",
                                os.path.join(folder, "plan.layout.json")], stdout=out)
        with open(kept) as file:
            text = file.read()
        yield name, devices, batch, json.loads(text) if text else None


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
    if options.page:
        published_page.write(options.page, {"tree": TREE, "table": table, "results": results, "why": why,
                                            "kernels": kernels_table(options.folder),
                                            "effects": effects, "plans": plans})


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
