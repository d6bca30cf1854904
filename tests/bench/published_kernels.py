"""Tables of machine files against the kernels and collectives that they were made of."""
import glob
import json
import math
import os
import re
import statistics

from published_sources import machine, read


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
        if name == "bf16 weight gradient" and "out_dtype=fp32" not in row["shape"]:
            return None  # they are added up in f32
        return name, look_up(efficiency[name], min(number["m"], number["k"], number["n"])), measured
    if row["op"] == "group_matmul" and number:
        kin = "bf16 weight gradient" if "stage=bwd_grad_w" in row["shape"] else "bf16 product"
        if kin == "bf16 weight gradient" and "main_grad_dtype=fp32" not in row["shape"]:
            return None
        name = kin.replace("bf16", "bf16 grouped")  # where that has no table, that of its kin counts
        return name, look_up(efficiency.get(name, efficiency[kin]), min(number["M"], number["K"], number["N"])), measured
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
            elif "bmm" in os.path.basename(path):  # scores of many heads, or what they weigh; two gradients
                (heads, rows, inner), (_, _, columns) = extents[-2:]
                smallest, flops = min(rows, inner, columns), 2 * heads * rows * inner * columns
                for products, seconds in ((1, forward), (2, backward)):
                    yield "bf16 product", look_up(efficiency["bf16 product"], smallest), products * flops / seconds / peak
            elif "flash_attn_qkvpacked_func" in key and extents[0][0] > 0:
                samples, tokens, _, heads, width = extents[0]
                flops = samples * tokens ** 2 * heads * 2 * width  # half of the scores are hidden
                for name, more, seconds in (("attention", 1, forward), ("attention backward", 2.5, backward)):
                    yield name, look_up(efficiency[name], more * flops), more * flops / seconds / peak


# What kernels that Mist's authors timed read and write of their largest operand, forward and backward, as
# graph/program/one_kernel.h has it of a softmax, a norm, an activation and a loss.
TRAFFIC = {"scaled_upper_triang_masked_softmax_fn": ("softmax", 2, 3), "layer_norm": ("layer norm", 2, 3),
           "gelu": ("GELU", 2, 3), "_vocab_parallel_cross_entropy": ("cross-entropy", 1, 2)}


def mist_traffic(folder, kind, cache):
    """(what, seconds by the rule, seconds measured) of kernels that memory bounds, in 16 bits; of more than 2^24 numbers,
    below which Python takes longer than they."""
    with open(machine(kind)) as file:
        of = next(iter(json.load(file)["kinds"].values()))
    rate = float(of["memory_bandwidth"].split()[0]) * 1e9 * look_up(of["efficiency"]["memory"], math.inf)
    for path in glob.glob(os.path.join(folder, "mist_node_database", cache, "*.json")):
        name, *units = TRAFFIC.get(os.path.basename(path).split(".")[-2], (None,))
        with open(path) as file:
            timed = json.load(file) if name else {}
        for key, times in timed.items():
            size = max(math.prod(int(n) for n in shape.split(", ")) for shape in re.findall(r"shape=\(([\d, ]+\d)\)", key))
            for way, n in zip(("fwd", "bwd"), units) if size > 1 << 24 else ():
                yield f"{name}{' backward' if way == 'bwd' else ''}", n * 2 * size / rate, times[way][1]


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
    for name, said, measured in mist_traffic(folder, "l4-1050mhz", "cache_NVIDIA_L4"):
        found.setdefault(f"l4-1050mhz: {name}", []).append(abs(said / measured - 1))
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
