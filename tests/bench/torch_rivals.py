#!/usr/bin/env python3
"""Found plans in PyTorch against what PyTorch has itself, on two hosts that tests/netlab plays, or on this one.

usage: torch_rivals.py CLEAVE TREE [--rate 1gbit] [--models NAME,...] [--rounds N] [--folder F]

Of each model: collectives are timed between the hosts and kernels here, `search --for torch` plans, and then the plan,
DistributedDataParallel and FSDP2 (fully_shard of every module that holds others, and of the whole) take steps in turns,
so what the machine does meanwhile hits all of them.  A step is that of the slowest rank; a ratio is the median over
rounds of rival / plan of the same round, so above 1 the plan is quicker.  All learn the same: losses of three steps are
compared.  Models are AlexNet on 224 pixels, the VGG-11 and byte_gpt of configs/models, and a small Llama, batches of 16,
8, 16 and 8.  Wants a quiet machine: the load is printed.
"""
import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

import torch_models
import torch_steps

LOSSES = 1e-3  # apart, at most, of its own size: sums in f32 in other orders
RANKS = 2


def vgg11():
    """As configs/models/make_vgg.py has it: large dense layers behind a smaller image."""
    return nn.Sequential(*list(torch_models.vgg11())[:-3], nn.Linear(2048, 4096), nn.ReLU(), nn.Linear(4096, 4096),
                         nn.ReLU(), nn.Linear(4096, 1000))


MODELS = {"alexnet": torch_models.MODELS["alexnet"],
          "vgg11": (vgg11, 8, torch_models.MODELS["vgg11"][2]),
          "byte_gpt": (lambda: torch_models.small.Language(4, 128, 4, 256, 64), 16, torch_models._texts(64, 256)),
          "llama": (torch_models.Llama, 8, torch_models._texts(64, 1000))}


# ---- on a rank --------------------------------------------------------------------------------------------------

def holds_others(module):
    return any(True for _ in module.children()) and not isinstance(module, nn.ModuleList)


def shard_fully(model):
    from torch.distributed.fsdp import fully_shard
    layers = [m for m in model.modules() if m is not model and holds_others(m)] or \
        [m for m in model.children() if any(True for _ in m.parameters())]
    for layer in layers:
        fully_shard(layer)
    return fully_shard(model)


def rivals(model, plan):
    """name: (model, whether a rank gives it its own part of the batch alone)"""
    import cleave.torch
    made = {"plan": (cleave.torch.apply(copy.deepcopy(model), plan), False),
            "ddp": (nn.parallel.DistributedDataParallel(copy.deepcopy(model)), True)}
    try:
        made["fsdp2"] = (shard_fully(copy.deepcopy(model)), True)
    except (ImportError, RuntimeError, NotImplementedError, AttributeError, TypeError) as error:
        if dist.get_rank() == 0:
            print(f"{'':10} fsdp2 is not here: {str(error).splitlines()[0][:90]}", flush=True)
    return made


def one_step(step):
    """(seconds of the slowest rank, the mean of ranks' losses)"""
    dist.barrier()
    began = time.perf_counter()
    loss = step()
    took = torch.tensor([time.perf_counter() - began])
    dist.all_reduce(took, dist.ReduceOp.MAX)
    dist.all_reduce(loss)
    return took.item(), loss.item() / dist.get_world_size()


def step_of(model, inputs, targets):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(*inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.detach().clone()
    return step


def part(x):
    """Rank r's of a batch, samples outermost."""
    return x.chunk(RANKS)[dist.get_rank()]


def work(name, plan, rounds):
    make, batch, data = MODELS[name]
    torch.manual_seed(0)
    model, (inputs, targets) = make().train(), data(batch)
    steps = {label: step_of(m, tuple(map(part, inputs)) if parts else inputs, part(targets) if parts else targets)
             for label, (m, parts) in rivals(model, plan).items()}
    seconds, losses = {label: [] for label in steps}, {label: [] for label in steps}
    for i in range(1 + rounds):
        for label, step in steps.items():
            try:
                took, loss = one_step(step)
            except (RuntimeError, NotImplementedError) as error:  # alike on all ranks: what a backend can't do
                if label == "plan":
                    raise
                took, loss = None, str(error).splitlines()[0][:90]
            losses[label].append(loss)
            if i > 0:  # the first makes what others find
                seconds[label].append(took)
    return {"seconds": seconds, "losses": losses}


def begin_rank():
    """Started by MPI's launcher, joined by gloo."""
    here = os.environ
    here.update(RANK=here["PMI_RANK"], WORLD_SIZE=here["PMI_SIZE"], MASTER_ADDR="10.0.0.1", MASTER_PORT="29400",
                GLOO_SOCKET_IFNAME="eth0")
    torch.set_num_threads(1)


def run_rank(a):
    begin_rank()
    if a.rank == "collectives":
        from cleave.torch import calibrate
        return calibrate.main([a.list, "-o", a.times, "--device", "cpu", "--quiet"])
    dist.init_process_group("gloo")
    found = work(a.models, a.plan, a.rounds)
    if dist.get_rank() == 0:
        with open(a.found, "w", encoding="utf-8") as stream:
            json.dump(found, stream)
    dist.barrier()
    os._exit(0)  # gloo may wait for ever where groups end


# ---- beside the hosts -------------------------------------------------------------------------------------------

class Bench:
    def __init__(self, a, tools):
        self.a, self.tools = a, tools
        self.netlab = os.path.join(a.tree, "tests", "netlab", "netlab")

    def on_hosts(self, *words):
        subprocess.run([self.netlab, "--hosts", str(RANKS), "--rate", self.a.rate, "--", torch_steps.PYTHON, __file__,
                        self.a.cleave, self.a.tree, *map(str, words)], check=True, timeout=240)

    def machine(self, path, given, layouts):
        """Collectives between the hosts, then kernels here: a host has one processor, which one process keeps busy."""
        listed, times, machine = (f"{path}.{what}.json" for what in ("kernels", "times", "machine"))
        words = [part for layout in layouts for part in ("--layout", layout)]
        self.calibrate("--list-kernels", listed, *given, "--devices", RANKS, "--machine", self.plain(path), *words)
        with open(listed, encoding="utf-8") as stream:
            kernels = json.load(stream)
        with open(listed + ".only", "w", encoding="utf-8") as stream:
            json.dump({**kernels, "operators": [], "copies": [], "devices": 1}, stream)
        self.on_hosts("--rank", "collectives", "--list", listed + ".only", "--times", times)
        subprocess.run([torch_steps.PYTHON, "-m", "cleave.torch.calibrate", listed, "-o", times, "--device", "cpu",
                        "--time", str(self.a.time), "--quiet"], check=True, stdout=subprocess.DEVNULL)
        self.calibrate("--import", times, "-o", machine)
        return machine

    def calibrate(self, *words):
        subprocess.run([self.a.cleave, "calibrate", *map(str, words)], check=True, stdout=subprocess.DEVNULL)

    def plain(self, path):
        """A machine to list for, before anything is timed."""
        file = path + ".plain.json"
        with open(file, "w", encoding="utf-8") as stream:
            json.dump({"cleave_machine": 1, "name": "plain",
                       "network": {"join": 0, "through": "switch", "bandwidth": "120 MB/s", "latency": "50 us"},
                       "kinds": {"core": {"memory": "8 GiB", "flops": "40 GFLOP/s", "memory_bandwidth": "10 GB/s",
                                          "efficiency": {"product": 1, "memory": 1}, "launch": "5 us", "source": "guessed"}},
                       "node": {"count": RANKS, "devices": 1, "kind": "core", "links": []}}, stream)
        return file

    def plan(self, name, make, data, batch):
        """The plan's file, and what it is predicted to take: searched again once its own kernels are timed."""
        torch.manual_seed(0)
        model, (inputs, _) = make().train(), data(batch)
        given, _ = self.tools.export(name, model, inputs, batch)
        path, layouts = self.tools.path(name), []
        layout, plan = path + ".layout.json", path + ".plan.json"
        for _ in range(2):
            machine = self.machine(path, given, layouts)
            self.tools.cleave.run("search", *given, "--machine", machine, "--devices", RANKS, "--threads", 1, "--for",
                                  "torch", "-o", layout)
            layouts = [layout]
        said = self.tools.cleave.run("export", "--to", "torch", *given, "--layout", layout, "--machine", machine, "-o",
                                     plan)
        return plan, said["exported"]

    def compare(self, name):
        make, batch, data = MODELS[name]
        plan, said = self.plan(name, make, data, batch)
        found = self.tools.path(name) + ".found.json"
        load = os.getloadavg()[0]
        self.on_hosts("--rank", "steps", "--models", name, "--plan", plan, "--found", found, "--rounds", self.a.rounds)
        with open(found, encoding="utf-8") as stream:
            said.update(json.load(stream), load=load)
        return said


def show(name, said):
    seconds, losses = said["seconds"], said["losses"]
    mine = seconds["plan"]
    print(f"{name:10} plan  {1e3 * statistics.median(mine):9.1f} ms  predicted {1e3 * said['step_seconds']:9.1f}, "
          f"{said['bytes_sent'] / 2**20:.1f} MiB are sent; load {said['load']:.1f}")
    for label in seconds:
        if label == "plan":
            continue
        if None in seconds[label]:
            print(f"{'':10} {label:5} {losses[label][-1]}")
            continue
        ratios = [a / b for a, b in zip(seconds[label], mine)]
        apart = max(abs(a - b) / abs(b) for a, b in zip(losses[label][:3], losses["plan"]))
        print(f"{'':10} {label:5} {1e3 * statistics.median(seconds[label]):9.1f} ms  {statistics.median(ratios):5.2f} x "
              f"the plan ({min(ratios):.2f} .. {max(ratios):.2f}), losses "
              f"{'the same' if apart <= LOSSES else f'APART by {apart:.1e}'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cleave"), parser.add_argument("tree")
    parser.add_argument("--rate", default="1gbit", help="of the hosts' links (default 1gbit)")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--time", type=float, default=0, help="of each calibration, beside what the layouts need")
    parser.add_argument("--folder", help="keep models, layouts and machine files here, and use what is timed there")
    for word in ("--rank", "--list", "--times", "--plan", "--found"):
        parser.add_argument(word, help=argparse.SUPPRESS)
    a = parser.parse_args()
    a.cleave, a.tree = os.path.realpath(a.cleave), os.path.realpath(a.tree)
    os.environ.update(CLEAVE=a.cleave, PYTHONPATH=os.path.join(a.tree, "python"), OMP_NUM_THREADS="1")
    sys.path.insert(0, os.environ["PYTHONPATH"])
    if a.rank:
        return run_rank(a)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(a, torch_steps.Tools(a, a.folder or folder))
        for name in a.models.split(","):
            show(name, bench.compare(name))


if __name__ == "__main__":
    main()
