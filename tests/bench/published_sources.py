"""Measurements that others published, each row in the words of docs/formats.md: what tests/bench/published.py prices."""
import csv
import glob
import json
import os
import re

TREE = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
MIB = 1024 * 1024


def machine(kind):
    """The file that ships for a kind of device: KIND-NODESxDEVICES.json."""
    found = [path for path in glob.glob(os.path.join(TREE, "configs", "machines", kind + "-*.json"))
             if re.fullmatch(re.escape(kind) + r"-\d+x\d+\.json", os.path.basename(path))]
    return found[0] if found else None


def read(folder, name):
    with open(os.path.join(folder, name), newline="") as file:
        return list(csv.DictReader(file))


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


def gpt2(layers, width, heads, vocabulary, sequence, dropout=0.0, **others):
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads, "vocab_size": vocabulary,
            "n_positions": sequence, "attn_pdrop": dropout, "resid_pdrop": dropout, "embd_pdrop": dropout, **others}


# ---- sources: each gives rows, of which `kind` names the device -------------------------------------------------------

def simumax(folder):
    models = {row["model"]: json.loads(row["config_json"]) for row in read(folder, "simumax_models.csv")}
    for row in read(folder, "simumax_b200.csv"):
        of = next((models[m] for m in models if m.startswith(row["model"])), None)
        data, micro_batch = int(row["dp"]), int(row["mbs"])
        run = {"kind": "b200", "group": f"simumax {row['model']}", "name": row["case"].replace("_cef", ""),
               "sequence": row["seq"], "batch": data * micro_batch * int(row["microbatches"]),
               "micro_batch": micro_batch, "data": data, "tensor": row["tp"], "pipeline": row["pp"],
               "context": row["cp"], "expert": row["ep"], "sharding": 1, "framework": "megatron-fused", "precision": "bf16", "reduce_precision": "mixed",
               "step": f"{row['measured_ms']} ms",
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
               "framework": "torchtitan" if "compile" in techniques else "eager",
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
               "framework": "llm-foundry", "kernels": "flash" if in_2024 else "triton", "besides": besides, "step": row["derived_step_s"]}


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
               "framework": "mist", "precision": "bf16", "reduce_precision": "bf16", "attention": "fused" if row["flash"] == "True" else "stored",
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


def unbiased(layers, width, heads, activation, **others):
    """Layer norms, a unit of two products and no biases, and queries, keys and values that are split by heads."""
    return {"model_type": "starcoder2", "hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": heads, "max_position_embeddings": 2048, "use_bias": False,
            "hidden_act": activation, "tie_word_embeddings": False, **others}


# As its code has them (OPTModelPipe and GPTNeoModelPipe of its Megatron-DeepSpeed): biases are there but never added, but
# for those of queries, keys and values, which lie head by head; OPT with ReLU, a head of its own and no dropout; GPT-Neo
# with dropout after attention and the unit, at 0.1 as nothing else is said, and without a head: its loss is over the
# numbers of the last norm, so its table is taken to have as many rows.
SAILOR_MODELS = {"OPT-350M": (24, unbiased(24, 1024, 16, "relu", embedding_dropout=0.0, residual_dropout=0.0)),
                 "GPT-NEO-2.7B": (32, unbiased(32, 2560, 20, "gelu", vocab_size=2560, embedding_dropout=0.1, residual_dropout=0.1))}


def sailor(folder):
    for row in read(folder, "sailor_validation.csv"):
        tensor = re.findall(r"tp(\d+)", row["stage_replicas_gpuxcount_tp"])
        layers, model = SAILOR_MODELS[row["model"]]
        padding = 128 * int(tensor[0])  # as its tokenizer has it of GPT-2
        model = {"vocab_size": -(-50257 // padding) * padding, **model}
        run = {"kind": "gh200" if "GH" in row["cluster"] else "rtx", "group": f"Sailor {row['model']}",
               "name": f"{row['model']} {row['cluster'].split()[0]} N{row['nodes']} pp{row['pp']} mbs{row['mbs']}",
               "model": model, "sequence": 2048, "batch": row["gbs"],
               "micro_batch": row["mbs"], "data": row["dp_per_stage"].split("|")[0], "tensor": tensor[0],
               "pipeline": row["pp"], "sequence_parallel": "no", "precision": "f32", "attention": "stored",
               "framework": "megatron-deepspeed" if "OPT" in row["model"] else "megatron-deepspeed-torch-norm", "shares": int(row["pp"]) > 1, "step": row["measured_iter_s"]}
        run["reserved"] = f"{float(row['max_mem_bytes']) - BESIDES_TORCH[run['kind']]:.0f}"
        ends = [[int(n) for n in part.split("-")] for part in row["layers_per_stage"].split("|")]
        if ends[-1][1] != layers + 1:  # 0 is the embedding, the last is the head
            run["besides"] = "it has layers 0 to %d, its model 0 to %d: figures of another run" % (ends[-1][1], layers + 1)
        if {"1"} == set(row["dp_per_stage"].split("|")) and float(row["reduce_grads_s"]) > 1:
            run["besides"] = "one replica that reduces gradients for %s s: figures of another run" % row["reduce_grads_s"]
        if int(row["pp"]) > 1:
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
               "sharding": 0, "framework": "megatron",
               "recompute": "selective" if row["recompute"] == "attn_only" else "none", "memory": f"{memory:.9g} GiB",
               "sequence_parallel": "no" if row["mode"] == "none" else "yes"}


SOURCES = {"simumax": ("simumax_b200.csv", simumax), "torchtitan": ("torchtitan.csv", torchtitan),
           "llm_foundry": ("llm_foundry_mpt.csv", llm_foundry), "mist": ("mist_l4.csv", mist),
           "sailor": ("sailor_validation.csv", sailor),
           "megatron": ("megatron_seqsel_fig1_memory.csv", megatron)}
