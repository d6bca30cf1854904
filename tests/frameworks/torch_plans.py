#!/usr/bin/env python3
"""Plans in PyTorch: on gloo ranks here, each trains as one device does, and sends what the program says.

usage: torch_plans.py CLEAVE TREE [--ranks 2,4] [--layouts N] [--models NAME,...|all] [--seed S] [--verbose]

For every model and number of ranks: the plan that `cleave search` finds, and N layouts drawn at random, some with
sharded updates, every second with operators on some ranks alone.  Three steps of SGD in double: losses, gradients of the
first step and parameters are those of one device to 1e-10; on a mesh of one dimension the bytes that all ranks send in a
step are those of the simulated program of the layout that was read back, to 1 %, where every operator is a module, and on
any mesh those that `export` says DTensor moves, to 10 %, but for what modules and the loss send among themselves, and for
models of which much else is sent.  Then what has to be refused is.
Exits 77 where there is no PyTorch.
"""
import argparse
import copy
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import torch
    import torch._dynamo  # once, before ranks are forked: DTensor asks for it in its first operator
    import torch.distributed as dist
    import torch.multiprocessing
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: {error}; ./bootstrap frameworks sets PyTorch up")
    sys.exit(77)

BATCH, TOLERANCE, BYTES, MOVED = 8, 1e-10, 0.01, 0.1
AMONG = ("allreduce_", "_allgather_base_")  # what modules and the loss send among themselves, which is not moved
SLACK = 64 * BATCH  # bytes: what a loss cut by classes sends is a few numbers a row, and not just the program's

# So slow that small models are worth splitting.
MACHINE = {"cleave_machine": 1, "name": "slow", "network": {"join": 0, "through": "switch", "bandwidth": "50 MB/s",
                                                            "latency": "1 us"},
           "kinds": {"slow": {"memory": "1 GiB", "flops": "20 MFLOP/s", "memory_bandwidth": "1 GB/s",
                              "efficiency": {"product": 1, "memory": 1}, "launch": "1 us", "source": "made up"}},
           "node": {"count": 8, "devices": 1, "kind": "slow", "links": []}}


def primes(n):
    return [] if n == 1 else next([p] + primes(n // p) for p in range(2, n + 1) if n % p == 0)


def draw_operator(rng, axes, mesh, narrow):
    """Every dimension of the mesh cuts an axis or repeats the operator, or (`narrow`) leaves it to some: their coordinate;
    devices in the order of a layout file."""
    while True:
        choice = [rng.choice([None, *axes, *axes]) for _ in mesh]
        choice = [rng.randrange(size) if narrow and rng.random() < 0.25 else axis for axis, size in zip(choice, mesh)]
        degree = {a: 1 for a in axes}
        for size, axis in zip(mesh, choice):
            if axis in degree:
                degree[axis] *= size
        if all(axes[a] >= d for a, d in degree.items()):
            break
    order = [(i, size) for wanted in [None, *axes] for i, (size, axis) in enumerate(zip(mesh, choice)) if axis == wanted]
    stride = [int(torch.tensor(mesh[i + 1:]).prod()) for i in range(len(mesh))]
    first = sum(at * stride[i] for i, at in enumerate(choice) if isinstance(at, int))
    devices = [first + sum(digit * stride[i] for digit, (i, _) in zip(digits, order))
               for digits in itertools.product(*(range(size) for _, size in order))]
    replicas = len(devices)
    for d in degree.values():
        replicas //= d
    return {"split": {a: d for a, d in degree.items() if d > 1}, "replicas": replicas, "devices": devices}


class Case:
    """A plan, and what its program sends."""

    def __init__(self, tools, name, onnx, layout, file, label):
        self.name, self.label, self.plan, self.layout = name, label, file, layout
        given = ["--to", "torch", "--model", onnx, "--batch", BATCH, *tools.inputs[name], "--layout", layout,
                 "--machine", tools.machine]
        said = tools.cleave.run("export", *given, "-o", file)
        self.bytes, self.moved = said["exported"]["bytes_sent"], said["moved_bytes"]
        plan = tools.cleave.load(file)
        # A loss that is repeated has the gradient of its logits sent once in the program, and in torch not at all.
        uneven = any("rounded up" in lost["why"] for lost in plan.lost)
        # Rows that are cut are flattened before a loss that some ranks have alone: DTensor makes them whole everywhere.
        flattened = plan.loss and name not in tools.all_modules and any(w[0] == "@" for w in plan.loss.input)
        self.moves = name in tools.all_moves and not uneven and not flattened
        self.counted = name in tools.all_modules and len(plan.mesh) == 1 and not uneven and plan.loss.input[0] != "R"
        # Partial sums: torch adds them up where they are read, and does on every rank what follows (a bias, a relu); in
        # the program owners do both, blocks of the longest dimension, and results and gradients move to and from them.
        self.at_most = any("P" in part.output for part in plan.modules.values())


class Tools:
    def __init__(self, folder, cleave, models):
        self.folder, self.cleave, self.inputs = folder, cleave, {}
        self.all_modules, self.all_moves = models.ALL_MODULES, models.ALL_MOVES
        self.machine = os.path.join(folder, "machine.json")
        with open(self.machine, "w", encoding="utf-8") as stream:
            json.dump(MACHINE, stream)

    def write(self, name, model, inputs):
        """The model as a file: its config.json where it has one, else as ONNX."""
        config = getattr(model, "config", None)
        file = os.path.join(self.folder, f"{name}.{'json' if config else 'onnx'}")
        if config:
            with open(file, "w", encoding="utf-8") as stream:
                json.dump(config, stream)
            self.inputs[name] = ["--sequence", inputs[0].shape[1]]
            return file
        names = self.cleave.torch.export(model, inputs, file)
        floats = [i for i, x in zip(names, inputs) if x.is_floating_point()]
        self.inputs[name] = ["--inputs", ",".join(floats)] if floats else []
        return file

    def cases(self, name, make, data, ranks, n, seed):
        inputs, _ = data(4)
        onnx = self.write(name, make(), inputs)
        path = os.path.join(self.folder, f"{name}.{ranks}")
        model = ["--model", onnx, "--batch", BATCH, *self.inputs[name]]
        self.cleave.run("search", *model, "--machine", self.machine, "--devices", ranks, "--threads", 1,
                        "--for", "torch", "-o", path + ".found.json")
        yield Case(self, name, onnx, path + ".found.json", path + ".found.plan.json", "found")
        axes = {o: {a: e for a, e in v["axes"].items() if a not in v.get("never_split", {})}
                for o, v in self.cleave.run("show", *model[1:])["operators"].items()}
        with open(path + ".found.json", encoding="utf-8") as stream:
            layout = {k: v for k, v in json.load(stream).items() if k != "schedule"}
        for i in range(n):
            rng = random.Random(f"{name} {ranks} {seed} {i}")
            mesh = rng.choice([[ranks], primes(ranks)])
            layout["operators"] = {o: draw_operator(rng, a, mesh, i % 2 == 1) for o, a in axes.items()}
            layout["parameters"] = {p: {"update": "sharded"} for p, _ in make().named_parameters()
                                    if rng.random() < 0.3 and not p.startswith("positions")}
            drawn = f"{path}.{i}"
            with open(drawn + ".layout.json", "w", encoding="utf-8") as stream:
                json.dump(layout, stream)
            yield Case(self, name, onnx, drawn + ".layout.json", drawn + ".plan.json", f"drawn {i}")


# ---- on a rank --------------------------------------------------------------------------------------------------


def train(model, inputs, targets, traffic):
    """The user's loop."""
    optimizer, losses, first = torch.optim.SGD(model.parameters(), lr=0.1), [], {}
    for step in range(3):
        with traffic() as counted:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(*inputs), targets)
            loss.backward()
        if step == 0:
            first = {n: whole(p.grad).clone() for n, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return losses, first, {n: whole(p).clone() for n, p in model.state_dict().items()}, counted


def whole(x):
    import cleave.torch
    return cleave.torch.whole(x.detach())


def apart(a, b):
    """The largest difference of two dictionaries of tensors, by the largest value of each."""
    worst = max((((a[n].double() - b[n].double()).abs().max() / b[n].double().abs().max().clamp(min=1e-2)).item(), n) for n in b)
    return worst


def check(case, reference, model, inputs, targets, verbose):
    import cleave.torch
    losses, gradients, parameters, _ = reference
    model = cleave.torch.apply(model, case.plan)
    mine, first, after, counted = train(model, inputs, targets, cleave.torch.Traffic)
    sent = torch.tensor([float(counted.bytes), sum(counted.by_kind.get(kind, 0.0) for kind in AMONG)], dtype=torch.double)
    dist.all_reduce(sent)
    sent, among = (sent / 2).tolist()  # they are double, and the program's are f32
    moved = sent - among
    loss = max(abs(x - y) for x, y in zip(mine, losses))
    wrong = []
    for what, (off, name) in (("loss", (loss, "")), ("gradient", apart(first, gradients)),
                              ("parameter", apart(after, parameters))):
        if not off <= TOLERANCE:
            wrong.append(f"{what} {name} is off by {off:.1e}")
    share, less = sent / case.bytes if case.bytes else 1.0, case.bytes - sent
    most = BYTES * case.bytes + SLACK
    if case.counted and not (-most <= less and (case.at_most or less <= most)):
        wrong.append(f"{sent:.0f} bytes are sent, the program says {case.bytes}")
    if case.moves and abs(moved - case.moved) > MOVED * case.moved + SLACK:
        wrong.append(f"{moved:.0f} bytes are moved, and DTensor is said to move {case.moved:.0f}")
    if counted.unknown:
        wrong.append(f"not counted: {counted.unknown}")
    if dist.get_rank() == 0 and (verbose or wrong):
        print(f"{case.name} {case.label} on {dist.get_world_size()}: {'; '.join(wrong) or 'as one device'}; bytes "
              f"{share:.3f}{' (not compared)' if not case.counted else ' (at most)' if case.at_most else ''}, of what "
              f"DTensor moves {moved / case.moved if case.moved else 1.0:.3f}{'' if case.moves else ' (not compared)'}",
              flush=True)
    return not wrong


def refused(words, call):
    import cleave.torch
    try:
        call()
    except cleave.torch.CleaveError as error:
        if "\n" not in str(error) and words in str(error):
            return True
        print(f"refused by other words than \"{words}\": {error}", flush=True)
    else:
        print(f"not refused: \"{words}\"", flush=True)
    return False


def check_refusals(case, model, other):
    import cleave.torch
    plan = cleave.torch.load(case.plan)
    square = torch.distributed.device_mesh.init_device_mesh("cpu", (dist.get_world_size(), 1))
    shrunk = copy.deepcopy(model)
    name, part = next((n, p) for n, p in plan.modules.items() if p.parameters)
    parent = shrunk.get_submodule(name.rpartition(".")[0])
    delattr(parent, name.rpartition(".")[2])
    return all([refused("is for a mesh of", lambda: cleave.torch.apply(copy.deepcopy(model), plan, square)),
                refused("this model has no module", lambda: cleave.torch.apply(shrunk, plan)),
                refused("the plan is of", lambda: cleave.torch.apply(other, plan)),
                refused("is no plan of version 1", lambda: cleave.torch.load(case.layout))])


def work(rank, ranks, cases, port, verbose, models):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    import contextlib
    ok, known = True, {}
    for case in cases:
        if case.name not in known:
            torch.manual_seed(1)
            make, data = models[case.name]
            model = make().double()
            inputs, targets = data(BATCH)
            inputs = tuple(x.double() if x.is_floating_point() else x for x in inputs)
            known[case.name] = model, inputs, targets, train(copy.deepcopy(model), inputs, targets, contextlib.nullcontext)
        model, inputs, targets, reference = known[case.name]
        ok = check(case, reference, copy.deepcopy(model), inputs, targets, verbose) and ok
    others = [m for m in known.values()]
    ok = check_refusals(cases[0], known[cases[0].name][0], others[-1][0]) and ok
    dist.destroy_process_group()
    sys.exit(0 if ok else 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cleave"), parser.add_argument("tree")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--layouts", type=int, default=5)
    parser.add_argument("--models", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--folder", help="keep models, layouts and plans here")
    a = parser.parse_args()
    os.environ["CLEAVE"] = a.cleave
    sys.path[:0] = [os.path.join(a.tree, "python"), os.path.dirname(os.path.abspath(__file__))]
    import cleave
    import cleave.torch
    import models
    failed, n = 0, 0
    for ranks in map(int, a.ranks.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            tools, cases = Tools(a.folder or folder, cleave, models), []
            for name in {"": models.QUICK, "all": models.MODELS}.get(a.models) or a.models.split(","):
                torch.manual_seed(0)
                cases += tools.cases(name, *models.MODELS[name], ranks, a.layouts, a.seed)
            n += len(cases)
            port = 29000 + os.getpid() % 1000 + ranks
            try:
                torch.multiprocessing.start_processes(work, (ranks, cases, port, a.verbose, models.MODELS), nprocs=ranks,
                                                      start_method="fork")
            except torch.multiprocessing.ProcessExitedException:
                failed += 1
    if failed:
        sys.exit(1)
    print(f"{n} plans in PyTorch {torch.__version__} on {a.ranks} ranks: all as one device")


if __name__ == "__main__":
    main()
