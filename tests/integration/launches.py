"""Launches of Megatron-LM and torchtitan: files have documented options alone, and what those mean, priced by `validate`
from their values and by nothing else, is what `export` says of the layout that it reads back.
  usage: launches.py CLEAVE TREE [FOLDER]     FOLDER keeps the files, for the launchers' own parsers"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import tomllib

# Of Megatron-LM's arguments, those that may be written: how many values each takes.
MEGATRON = {**{f"--{n}": 1 for n in (
    "tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size expert-model-parallel-size "
    "num-virtual-stages-per-pipeline-rank pipeline-model-parallel-layout micro-batch-size global-batch-size seq-length "
    "data-parallel-sharding-strategy ckpt-format recompute-granularity recompute-method recompute-num-layers fp8-format "
    "num-layers hidden-size ffn-hidden-size vocab-size norm-epsilon num-attention-heads num-query-groups kv-channels "
    "attention-dropout hidden-dropout max-position-embeddings position-embedding-type rotary-base rope-scaling-factor "
    "normalization num-experts moe-router-topk moe-ffn-hidden-size").split()},
    **{f"--{n}": 0 for n in (
        "sequence-parallel use-distributed-optimizer use-megatron-fsdp no-gradient-accumulation-fusion bf16 fp16 swiglu "
        "group-query-attention use-rope-scaling disable-bias-linear add-qkv-bias qk-layernorm "
        "untie-embeddings-and-output-weights").split()}}
# Of torchtitan's (its configuration of 0.2), with their types.
TORCHTITAN = {
    "model": {"name": str, "flavor": str},
    "training": {"local_batch_size": int, "global_batch_size": int, "seq_len": int, "mixed_precision_param": str,
                 "mixed_precision_reduce": str},
    "parallelism": {"data_parallel_replicate_degree": int, "data_parallel_shard_degree": int,
                    "fsdp_reshard_after_forward": str, "tensor_parallel_degree": int, "context_parallel_degree": int,
                    "expert_parallel_degree": int, "pipeline_parallel_degree": int, "pipeline_parallel_schedule": str,
                    "pipeline_parallel_microbatch_size": int, "module_fqns_per_model_part": list},
    "activation_checkpoint": {"mode": str, "selective_ac_option": str}}
LLAMA = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4,
         "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 256, "rms_norm_eps": 1e-5, "hidden_act": "silu",
         "max_position_embeddings": 128, "tie_word_embeddings": False}
LAYERS = 4
SEQUENCE = 16


def fail(text):
    print(text)
    sys.exit(1)


def read_megatron(path):
    with open(path, encoding="utf-8") as stream:
        words, said = stream.read().split(), {}
    while words:
        name = words.pop(0)
        if name not in MEGATRON or name in said:
            fail(f"{path}: Megatron-LM has no {name}, or it is there twice")
        said[name] = words.pop(0) if MEGATRON[name] else True
    return said


def read_torchtitan(path):
    with open(path, "rb") as stream:
        said = tomllib.load(stream)
    for section, values in said.items():
        for key, value in values.items():
            if not isinstance(value, TORCHTITAN[section][key]):
                fail(f"{path}: {section}.{key} = {value}")
    return said


def run_of_megatron(said, devices):
    tensor, pipeline = int(said["--tensor-model-parallel-size"]), int(said["--pipeline-model-parallel-size"])
    parts = said.get("--pipeline-model-parallel-layout", "").strip("EL").split("|")
    stages = len(parts) if len(parts) > 1 else pipeline * int(said.get("--num-virtual-stages-per-pipeline-rank", 1))
    layers = [len(p) for p in parts] if len(parts) > 1 else [LAYERS // stages] * stages
    if ("--sequence-parallel" in said) != (tensor > 1):
        fail("products are shared without sequence parallelism, or the other way round")
    sharding = {"optim_grads": 2, "optim_grads_params": 3}.get(
        said.get("--data-parallel-sharding-strategy"), 1 if "--use-distributed-optimizer" in said else 0)
    return {"devices": devices, "data": devices // tensor // pipeline, "tensor": tensor, "pipeline": pipeline,
            "virtual": stages // pipeline, "batch": said["--global-batch-size"], "micro_batch": said["--micro-batch-size"],
            "schedule": "interleaved" if stages > pipeline else "1f1b", "layers": layers, "sharding": sharding,
            "recompute": said.get("--recompute-granularity", "none"),
            "precision": "bf16" if "--bf16" in said else "f32", "sequence": said["--seq-length"]}


def run_of_torchtitan(said, devices):
    training, parallelism, ac = said["training"], said["parallelism"], said["activation_checkpoint"]
    shards = parallelism["data_parallel_shard_degree"]
    data, pipeline = parallelism["data_parallel_replicate_degree"] * shards, parallelism["pipeline_parallel_degree"]
    parts = parallelism.get("module_fqns_per_model_part", [[]])
    names = [n for part in parts for n in part]
    if pipeline > 1 and names != ["tok_embeddings"] + [f"layers.{i}" for i in range(LAYERS)] + ["norm", "output"]:
        fail(f"stages have the modules {names}")
    return {"devices": devices, "data": data, "tensor": parallelism["tensor_parallel_degree"], "pipeline": pipeline,
            "virtual": len(parts) // pipeline, "batch": training["global_batch_size"],
            "micro_batch": parallelism.get("pipeline_parallel_microbatch_size", training["local_batch_size"]),
            "schedule": {"1F1B": "1f1b", "GPipe": "gpipe", "Interleaved1F1B": "interleaved"}[
                parallelism.get("pipeline_parallel_schedule", "1F1B")],
            "layers": [sum(n.startswith("layers.") for n in part) for part in parts],
            "sharding": {"always": 3, "never": 2 if pipeline == 1 else 1}[parallelism["fsdp_reshard_after_forward"]]
            if shards > 1 else 0,
            "recompute": {"none": "none", "full": "full", "selective": "alternate"}[ac["mode"]],
            "precision": "bf16" if training["mixed_precision_param"] == "bfloat16" else "f32",
            "sequence": training["seq_len"]}


LAUNCHERS = {"megatron": (read_megatron, run_of_megatron), "torchtitan": (read_torchtitan, run_of_torchtitan)}


class Plans:
    def __init__(self, cleave, tree, folder):
        self.cleave, self.folder, self.rows, self.expected = cleave, folder, [], []
        self.machine = os.path.join(tree, "configs/machines/a100-128x8.json")
        self.model = os.path.join(folder, "config.json")
        with open(self.model, "w", encoding="utf-8") as stream:
            json.dump(LLAMA, stream)

    def run(self, *words, status=0):
        done = subprocess.run([self.cleave, *map(str, words)], capture_output=True, text=True, check=False)
        if done.returncode != status:
            fail(f"{' '.join(map(str, words))}: {done.returncode}, not {status}: {done.stderr}")
        return json.loads(done.stdout) if status == 0 else done.stderr

    def make(self, name, devices, batch, precision, *search):
        """A layout, exported for both; `name` says for which it is as it is."""
        model = ["--model", self.model, "--sequence", SEQUENCE, "--batch", batch, "--precision", precision, "--optimizer",
                 "adam"]
        layout = os.path.join(self.folder, f"{name}.layout.json")
        self.run("search", *model, "--machine", self.machine, "--devices", devices, *search, "--quiet", "--json", "-o", layout)
        for to, (read, mean) in LAUNCHERS.items():
            file, back = os.path.join(self.folder, f"{name}.{to}"), os.path.join(self.folder, f"{name}.{to}.layout.json")
            said = self.run("export", "--to", to, *model, "--layout", layout, "--machine", self.machine, "--json", "--quiet",
                            "--read-back", back, "-o", file)
            run = mean(read(file), devices)
            for key in ("data", "tensor", "pipeline", "virtual", "micro_batch", "schedule", "recompute"):
                if key != "schedule" and str(run[key]) != str(said[key]):
                    fail(f"{name}: the file says {key} {run[key]}, export {said[key]}")
            self.rows.append({"name": f"{name} {to}", "model": self.model, "machine": self.machine, "optimizer": "adam",
                              "step": "1 s", **run, "layers": "|".join(map(str, run["layers"])) if run["pipeline"] > 1 else ""})
            self.expected.append(said["exported"]["step_seconds"])
            self.check_strict(to, model, layout, said, name)

    def check_strict(self, to, model, layout, said, name):
        """Nothing is lost where the layout is one that the launcher has."""
        whole = to in name.split("+")
        if whole != (said["lost"] == 0) or (whole and said["alike"] != 1):
            fail(f"{name}: {said['lost']} things are lost for {to}")
        if not whole:
            why = self.run("export", "--to", to, *model, "--layout", layout, "--strict", "-o", layout + ".no", status=2)
            if "can't have it as it is" not in why or why.count("\n") != 1 or os.path.exists(layout + ".no"):
                fail(f"{name}: refused by other words: {why}")
        elif abs(said["exported"]["step_seconds"] - said["planned"]["step_seconds"]) > 0:
            fail(f"{name}: another step than the plan's: {said}")

    def check(self):
        """Each file, as what it says is priced."""
        table = os.path.join(self.folder, "runs.csv")
        with open(table, "w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, self.rows[0].keys())
            writer.writeheader()
            writer.writerows(self.rows)
        runs = self.run("validate", table, "--json", "--quiet")["runs"]
        for run, step in zip(runs, self.expected, strict=True):
            if run["step_seconds"] != step:
                fail(f"{run['name']}: what the file says takes {run['step_seconds']}, what is read back {step}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.abspath(a) for a in sys.argv[1:]]
        plans = Plans(*paths[:2], paths[2] if len(paths) > 2 else folder)
        staged = ("--stages", 2, "--micro-batches", 4, "--schedule", "1f1b")
        plans.make("megatron+torchtitan+data", 4, 16, "f32", "--method", "data-parallel", "--zero", 0, "--stages", 1,
                   "--micro-batches", 2, "--recompute", "none")
        plans.make("megatron+torchtitan+weights", 8, 32, "bf16", "--method", "data-parallel", "--zero", 3, "--stages", 1,
                   "--micro-batches", 2, "--recompute", "full")
        plans.make("megatron+update", 8, 16, "bf16", "--method", "megatron", "--tensor", 2, "--zero", 1, "--recompute", "full",
                   "--stages", 1, "--micro-batches", 2)
        plans.make("torchtitan+alternate", 8, 16, "bf16", "--method", "data-parallel", "--zero", 2, "--stages", 1,
                   "--micro-batches", 1, "--recompute", "alternate")
        plans.make("megatron+even stages", 8, 32, "bf16", "--method", "megatron", "--tensor", 2, "--zero", 2, "--recompute", "none",
                   *staged)
        # Four layers in three stages: the work is cut most evenly within layers.
        plans.make("cut by work", 6, 24, "bf16", "--method", "megatron", "--tensor", 2, "--zero", 2, "--recompute", "none",
                   "--stages", 3, *staged[2:])
        plans.make("gpipe", 4, 16, "f32", "--method", "data-parallel", "--zero", 0, "--recompute", "none", *staged[:4],
                   "--schedule", "gpipe")
        plans.make("megatron+torchtitan+by turns", 4, 16, "f32", "--method", "megatron", "--tensor", 2, "--zero", 0,
                   "--recompute", "none", "--stages", 4, "--virtual", 2, "--micro-batches", 4, "--schedule", "interleaved")
        plans.make("found", 4, 16, "f32", "--time", 2)
        plans.check()
        print(f"{len(plans.rows)} launches: all as what they say is priced")


if __name__ == "__main__":
    main()
