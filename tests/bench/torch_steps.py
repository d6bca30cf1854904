#!/usr/bin/env python3
"""Steps in PyTorch, predicted after a calibration through it, and measured.

usage: torch_steps.py CLEAVE TREE [--ranks 1|2] [--models NAME,...] [--layouts N] [--folder F] [--time S]

With 1 rank: a step of each model on one device and one thread.  With more: the plan that is found, data parallelism and
N layouts drawn at random, each on gloo ranks of its own, of one thread each, in turns, so that what a shared machine varies
by from one second to the next falls on all; then the median of errors and Kendall's tau.  Calibrates each model first.  Wants a
quiet machine: the load is printed.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

import torch
import torch._dynamo  # once, before ranks are forked
import torch.distributed as dist
import torch.multiprocessing
import torch.nn.functional as F

TURNS, STEPS = 7, 6
PYTHON = os.environ.get("PYTHON_EXEC", sys.executable)


def step_of(model, inputs, targets):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(*inputs), targets).backward()
        optimizer.step()
    return step


def calibrate(tools, given, path, ranks, layouts):
    """The command as a person types it."""
    machine = path + ".machine.json"
    if not os.path.exists(machine):
        listed = [part for layout in layouts for part in ("--layout", layout)]
        subprocess.run([tools.cleave.command.find(), "calibrate", "--through", "torch", *map(str, given), "--devices",
                        str(ranks), "--device", "cpu", "--python", PYTHON, "--time", str(tools.time), "--quiet",
                        "-o", machine, *listed], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "PYTHONPATH": os.path.join(tools.tree, "python")})
    return machine


def line(name, label, found):
    return (f"{name:14} {label:12} measured {found.seconds * 1e3:8.2f} ms ± {found.spread * 1e3:5.2f}   predicted "
            f"{found.predicted * 1e3:8.2f} ms   {found.error * 100:+6.1f} %   load {os.getloadavg()[0]:.1f}")


def single(tools, name, make, data, batch):
    model, (inputs, targets) = make().train(), data(batch)
    given, _ = tools.export(name, model, inputs, batch)
    machine = calibrate(tools, given, tools.path(name), 1, [])
    predicted = tools.cleave.run("simulate", *given, "--machine", machine, "--method", "single")["step_seconds"]
    return tools.torch.measure(model, step_of(model, inputs, targets), steps=30, seconds=5, predicted=predicted)


def rank_work(rank, ranks, port, plan, name, wire):
    """One layout: a turn whenever it is told to."""
    import cleave.torch
    import torch_models
    make, batch, data = torch_models.MODELS[name]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model, (inputs, targets) = make().train(), data(batch)
    model = cleave.torch.apply(model, plan)
    step = step_of(model, inputs, targets)
    wire.send(None)
    while wire.recv():
        found = cleave.torch.measure(model, step, steps=STEPS, warm_up=2)
        wire.send((found.seconds, found.spread))
    dist.barrier()
    os._exit(0)  # gloo of PyTorch 2.6 may wait for ever where groups end


def in_turns(plans, ranks, name):
    """[(seconds, spread, steps)]: each layout on ranks of its own, as a person runs it, so that none finds memory that
    another has left, nor that this process has; one layout at a time, the others wait."""
    torch.multiprocessing.set_executable(PYTHON)
    context, all_wires, started, port = torch.multiprocessing.get_context("forkserver"), [], [], first_port()
    context.set_forkserver_preload(["torch", "torch._dynamo"])
    for k, plan in enumerate(plans):
        wires = []
        for rank in range(ranks):
            here, there = context.Pipe()
            started.append(context.Process(target=rank_work, daemon=True,
                                           args=(rank, ranks, port + k, plan, name, there)))
            started[-1].start()
            there.close()
            wires.append(here)
        for wire in wires:
            wire.recv()
        all_wires.append(wires)

    def turn(wires):
        for wire in wires:
            wire.send(True)
        return [wire.recv() for wire in wires][0]
    turns = [[turn(wires) for wires in all_wires] for _ in range(TURNS)]
    for wires in all_wires:
        for wire in wires:
            wire.send(False)
    for process in started:
        process.join()
    return [(*map(statistics.median, zip(*found)), TURNS * STEPS) for found in zip(*turns)]


def first_port():
    """Of some that other processes, and what the system gives out, hardly have."""
    return 20000 + os.getpid() * 16 % 12000


def several(tools, name, make, data, batch, ranks, n):
    import torch_plans
    model, (inputs, _) = make().train(), data(batch)
    given, shown = tools.export(name, model, inputs, batch)
    path, labels, layouts = tools.path(name), ["data parallel", "found"], []
    plain = path + ".plain.json"
    with open(plain, "w", encoding="utf-8") as stream:
        json.dump(torch_plans.MACHINE, stream)
    for label in ("data-parallel", "auto"):
        layouts.append(f"{path}.{label}.layout.json")
        tools.cleave.run("search", *given, "--machine", plain, "--devices", ranks, "--threads", 1, "--for", "torch",
                         "--method", label, "-o", layouts[-1])
    with open(layouts[-1], encoding="utf-8") as stream:
        layout = {k: v for k, v in json.load(stream).items() if k != "schedule"}
    axes = {o: {a: e for a, e in v["axes"].items() if a not in v.get("never_split", {})}
            for o, v in shown["operators"].items()}
    for i in range(n):
        rng = random.Random(f"{name} {ranks} {i}")
        layout["operators"] = {o: torch_plans.draw_operator(rng, a, [ranks], False) for o, a in axes.items()}
        drawn, back = f"{path}.{i}.drawn.json", f"{path}.{i}.layout.json"
        with open(drawn, "w", encoding="utf-8") as stream:
            json.dump(layout, stream)
        tools.cleave.run("export", "--to", "torch", *given, "--layout", drawn, "--read-back", back, "-o", back + ".plan")
        labels.append(f"drawn {i}")
        layouts.append(back)
    machine = calibrate(tools, given, f"{path}.{ranks}", ranks, layouts)
    predicted = []
    for layout in layouts:
        said = tools.cleave.run("export", "--to", "torch", *given, "--layout", layout, "--machine", machine, "-o",
                                layout + ".plan.json")
        predicted.append(said["exported"]["step_seconds"])
    plans = [layout + ".plan.json" for layout in layouts]
    took = in_turns(plans, ranks, name)
    return [(label, tools.torch.Measurement(*t, p)) for label, t, p in zip(labels, took, predicted)]


def tau(found):
    pairs = [(a, b) for i, a in enumerate(found) for b in found[:i]]
    same = sum((a.seconds - b.seconds) * (a.predicted - b.predicted) > 0 for a, b in pairs)
    return 2 * same / len(pairs) - 1 if pairs else 1.0


class Tools:
    def __init__(self, a, folder):
        import cleave
        import cleave.torch
        os.makedirs(folder, exist_ok=True)
        self.cleave, self.torch, self.tree, self.folder, self.time = cleave, cleave.torch, a.tree, folder, a.time

    def path(self, name):
        return os.path.join(self.folder, name)

    def export(self, name, model, inputs, batch):
        onnx = self.path(name) + ".onnx"
        floats = [n for n, x in zip(self.torch.export(model, inputs, onnx), inputs) if x.is_floating_point()]
        given = ["--model", onnx, "--batch", batch] + (["--inputs", ",".join(floats)] if floats else [])
        return given, self.cleave.run("show", *given[1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cleave"), parser.add_argument("tree")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--models", default="")
    parser.add_argument("--layouts", type=int, default=4)
    parser.add_argument("--folder", help="keep models, layouts and machine files here, and use what is there")
    parser.add_argument("--time", type=float, default=0, help="of each calibration, beside what the layouts need")
    a = parser.parse_args()
    os.environ["CLEAVE"] = a.cleave
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [os.path.join(a.tree, "python"), here, os.path.join(here, os.pardir, "frameworks")]
    import torch_models
    torch.set_num_threads(1)
    all_found, taus = [], []
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(a, a.folder or folder)
        for name in a.models.split(",") if a.models else torch_models.MODELS:
            make, batch, data = torch_models.MODELS[name]
            torch.manual_seed(0)
            if a.ranks == 1:
                rows = [("single", single(tools, name, make, data, batch))]
            else:
                rows = several(tools, name, make, data, batch, a.ranks, a.layouts)
                taus.append(tau([found for _, found in rows]))
            for label, found in rows:
                print(line(name, label, found), flush=True)
            all_found += [found for _, found in rows]
    print(f"{len(all_found)} steps: median of |error| {100 * statistics.median(abs(f.error) for f in all_found):.1f} %, "
          f"largest {100 * max(abs(f.error) for f in all_found):.1f} %")
    if taus:
        print("Kendall's tau of each model's layouts: " + ", ".join(f"{t:.2f}" for t in taus))


if __name__ == "__main__":
    main()
