#!/usr/bin/env python3
"""Training steps of Cleave beside PyTorch's DistributedDataParallel over gloo, in turns, on two hosts that tests/netlab plays.

Sides: `dp`, data parallel of ours; `found`, the plan of a search on a machine that is calibrated on these hosts; `ddp`,
and for images `ddp-cl` with channels last. Models are those of tests/bench/peers/torch_steps.py, the same module
exported and trained; batches are global. Plain SGD in f32, one thread a rank, one rank a host. A step's time is the
median of a process's steps but the first two, in which DDP puts its buckets together. Every round runs all sides; a
ratio is that of a side of PyTorch over one of ours in the same round, above 1 where ours is quicker: its median and its
range are printed, and what other processes took of the processors. Batch normalisation in DDP is that of each rank's
samples; ours is that of the whole batch and exchanges statistics. Needs root, PyTorch, torchvision, onnx.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch_steps
import known
import others

ROOT = torch_steps.ROOT
NETLAB = os.path.join(ROOT, "tests", "netlab", "netlab")
RANKS, SETTLED = 2, 2
OURS, SIDES = {"dp", "found"}, ["dp", "found", "ddp", "ddp-cl"]
MODELS = "resnet50:8,vgg16:4,byte_gpt:32,alexnet:64"


def peer(name, batch, side, steps):
    """One rank of PyTorch's side; rank 0 prints the seconds of a step."""
    import torch
    import torch.distributed as dist
    of_mpi = os.environ
    of_mpi.update(RANK=of_mpi["PMI_RANK"], WORLD_SIZE=of_mpi["PMI_SIZE"], MASTER_ADDR="10.0.0.1", MASTER_PORT="29400",
                  GLOO_SOCKET_IFNAME="eth0")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model, x, loss_of = torch_steps.make(name, batch // RANKS)
    if side == "ddp-cl":
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    model = torch.nn.parallel.DistributedDataParallel(model.train(), gradient_as_bucket_view=True)
    optimizer, seconds = torch.optim.SGD(model.parameters(), 0.01), []
    dist.barrier()
    for _ in range(steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss_of(model(x)).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    if dist.get_rank() == 0:
        print(json.dumps({"step_seconds": statistics.median(seconds[SETTLED:])}), flush=True)
    dist.barrier()
    os._exit(0)  # gloo may wait for ever where groups end


def said_by(command):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


class Case:
    def __init__(self, given, text, folder):
        self.given, self.folder = given, folder
        self.name, self.batch = text
        self.file = os.path.join(folder, self.name + ".onnx")
        self.words = ["--model", self.file, "--batch", str(self.batch), "--quiet"]

    def path(self, side):
        return os.path.join(self.folder, f"{self.name}.{side}.layout.json")

    def on_hosts(self, *command):
        return said_by([NETLAB, "--hosts", str(RANKS), "--rate", self.given.rate, "--", *command])

    def search(self, side, machine, *words):
        said_by([self.given.cleave, "search", *self.words, "--machine", machine, "-o", self.path(side), *words])

    def find(self):
        """Twice, since the first search rests on kernels that nobody timed."""
        machine = os.path.join(self.folder, self.name + ".machine.json")
        layouts = ["--layout", self.path("dp")]
        for _ in range(2) if not os.path.exists(self.path("found")) else ():
            self.on_hosts(self.given.cleave, "calibrate", *self.words, "--time", str(self.given.calibrate), *layouts, "-o",
                          machine)
            self.search("found", machine, "--time", str(self.given.search))
            layouts = ["--layout", self.path("dp"), "--layout", self.path("found")]

    def prepare(self):
        import cleave.torch
        model, x, _ = torch_steps.make(self.name, self.batch)
        cleave.torch.export(model, [x], self.file)
        plain = os.path.join(ROOT, "configs", "machines", "two-cores.json")
        self.search("dp", plain, "--method", "data-parallel")
        if "found" in self.given.sides:
            self.find()

    def seconds(self, side):
        steps = ["--steps", str(self.given.steps)]
        if side in OURS:
            command = [self.given.cleave, "run", *self.words, "--layout", self.path(side), "--json", *steps]
        else:
            command = [sys.executable, os.path.abspath(__file__), self.given.cleave, f"{self.name}:{self.batch}", "--peer",
                       side, *steps]
        return json.loads(self.on_hosts(*command))["step_seconds"]

    def compare(self):
        self.prepare()
        images = torch_steps.TABLE[self.name][0] == "torchvision"
        watch, taken = others.Watch(), {side: [] for side in self.given.sides if images or side != "ddp-cl"}
        for _ in range(self.given.rounds):
            for side, row in taken.items():
                row.append(self.seconds(side))
        line = "  ".join(f"{side} {1e3 * statistics.median(row):.1f} ms" for side, row in taken.items())
        print(f"{self.name}, {self.batch}, {self.given.rate}: {line}; others took {watch.others():.1f} processors")
        for side, theirs in itertools.product(sorted(taken.keys() & OURS), sorted(taken.keys() - OURS)):
            ratios = [a / b for a, b in zip(taken[theirs], taken[side])]
            print(f"    {theirs} / {side}  {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def model_and_batch(text):
    name, _, batch = text.partition(":")
    names = [name for name in torch_steps.TABLE if not torch_steps.is_ours_alone(name)]
    return known.one_of(names)(name), known.positive(batch or str(torch_steps.TABLE[name][1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cleave", type=known.program, help="the command, as built")
    parser.add_argument("models", nargs="?", type=known.listed(model_and_batch), default=MODELS,
                        metavar="MODEL:BATCH,...", help=f"default {MODELS}")
    parser.add_argument("--rate", default="1gbit", help="of the hosts' links (default 1gbit)")
    parser.add_argument("--sides", type=known.listed(known.one_of(SIDES)), default="dp,ddp,ddp-cl", metavar="SIDE,...",
                        help=f"of {', '.join(SIDES)} (default all but found)")
    parser.add_argument("--rounds", type=known.positive, default=3, help="turns of each side (default 3)")
    parser.add_argument("--steps", type=known.positive, default=6, help=f"of a turn, more than {SETTLED} (default 6)")
    parser.add_argument("--calibrate", type=float, default=20, metavar="SECONDS", help="of each calibration (default 20)")
    parser.add_argument("--search", type=float, default=10, metavar="SECONDS", help="of each search (default 10)")
    parser.add_argument("--folder", help="keep models, machines and found plans here, and use the plans that are there")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.steps <= SETTLED:
        parser.error(f"--steps {given.steps}: more than {SETTLED} are wanted")
    given.cleave = os.path.realpath(given.cleave)
    if given.peer:
        peer(*given.models[0], given.peer, given.steps)
        return
    with tempfile.TemporaryDirectory() as folder:
        for text in given.models:
            Case(given, text, given.folder or folder).compare()


if __name__ == "__main__":
    main()
