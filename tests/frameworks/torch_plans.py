#!/usr/bin/env python3
"""Plans in PyTorch: on gloo ranks here, each trains as one device does, and sends what the program says.

usage: torch_plans.py CLEAVE TREE [--ranks 2,4] [--layouts N] [--models NAME,...|all] [--seed S] [--float] [--verbose]

For every model and number of ranks: the plan that `cleave search` finds, and N layouts drawn at random, some with
sharded updates, every second with operators on some ranks alone.  Three steps of SGD in double: losses, gradients of the
first step and parameters are those of one device to 1e-10 (with --float in single precision, to 1e-4); on a mesh of one dimension the bytes that all ranks send in a
step are those of the simulated program of the layout that was read back, to 1 %, where every operator is a module, and on
any mesh those that `export` says DTensor moves, to 10 %, but for what modules and the loss send among themselves, and for
models of which much else is sent.  Then what has to be refused is, and a plan is applied under other names.
Exits 77 where there is no PyTorch.
"""
import argparse
import contextlib
import copy
import json
import logging
import os
import random
import sys
import tempfile
import types

try:
    import torch
    import torch._dynamo  # once, before ranks are forked: DTensor asks for it in its first operator
    import torch.distributed as dist
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: {error}; ./bootstrap frameworks sets PyTorch up")
    sys.exit(77)

logging.getLogger("torch.distributed.tensor._collective_utils").setLevel(logging.ERROR)  # of gloo, which lacks all-to-all

import ranks as gloo
from drawn import MACHINE, draw_operator, primes

BATCH, TOLERANCE, FLOAT_TOLERANCE, BYTES, MOVED = 8, 1e-10, 1e-4, 0.01, 0.1
AMONG = ("allreduce_", "_allgather_base_")  # what modules and the loss send among themselves, which is not moved
SLACK = 64 * BATCH  # bytes: what a loss cut by classes sends is a few numbers a row, and not just the program's


class Case:
    """A plan, and what its program sends."""

    def __init__(self, tools, name, onnx, layout, file, label):
        self.name, self.label, self.plan, self.layout = name, label, file, layout
        given = ["--to", "torch", "--model", onnx, "--batch", BATCH, *tools.inputs[name], "--layout", layout,
                 "--machine", tools.machine]
        said = tools.cleave.run("export", *given, "-o", file)
        self.bytes, self.moved = said["exported"]["bytes_sent"], said["moved_bytes"]
        plan = tools.cleave.load(file)
        self.mesh = list(plan.mesh)
        # A loss that is repeated has the gradient of its logits sent once in the program, and in torch not at all.
        uneven = any("rounded up" in lost["why"] for lost in plan.lost)
        self.moves = name in tools.all_moves and not uneven
        self.counted = name in tools.all_modules and len(plan.mesh) == 1 and not uneven and plan.loss.input[0] != "R"
        # Partial sums: torch adds them up where they are read, and does on every rank what follows (a bias, a relu); in
        # the program owners do both, blocks of the longest dimension, and results and gradients move to and from them.
        self.experts = [axis for part in plan.modules.values() if part.type == "Experts" for axis in part.axes]
        self.at_most = any("P" in part.output for part in plan.modules.values())


class Tools:
    def __init__(self, folder, cleave, models):
        self.folder, self.cleave, self.models, self.inputs = folder, cleave, models, {}
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
        before = copy.deepcopy(model.double().state_dict())
        names = self.cleave.torch.export(model, inputs, file)
        assert all(torch.equal(x, before[n]) for n, x in model.state_dict().items()), f"to export {name} changes it"
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
            for o in (o for o in axes if o.endswith(self.models.EXPERTS)):  # by tokens, by experts, within each, or by two
                layout["operators"][o] = draw_operator(rng, {a: axes[o][a] for a in self.models.EXPERT_AXES}, mesh, False)
            layout["parameters"] = {p: {"update": "sharded"} for p, _ in make().named_parameters()
                                    if rng.random() < 0.3 and not p.startswith("positions") and "parametrizations" not in p}
            drawn = f"{path}.{i}"
            with open(drawn + ".layout.json", "w", encoding="utf-8") as stream:
                json.dump(layout, stream)
            yield Case(self, name, onnx, drawn + ".layout.json", drawn + ".plan.json", f"drawn {i}")


# ---- on a rank --------------------------------------------------------------------------------------------------


def train(model, inputs, targets, traffic, first, after):
    """The user's loop.  `first` is given every gradient of the first step, whole, and `after` what the model ends with."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for step in range(3):
        with traffic() as counted:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(*inputs), targets)
            loss.backward()
        if step == 0:
            for name, parameter in model.named_parameters():
                first(name, whole(parameter.grad))
        optimizer.step()
        losses.append(loss.item())
    for name, value in model.state_dict().items():
        after(name, whole(value))
    return losses, counted


def whole(x):
    import cleave.torch
    return cleave.torch.whole(x.detach())


class Kept(dict):
    def __call__(self, name, value):
        self[name] = value.clone()


class Apart:
    """The largest difference to tensors that were kept, by the largest value of each; they come one by one, since all of
    them on every rank would fill the memory."""

    def __init__(self, kept):
        self.kept, self.missing, self.worst, self.where = kept, set(kept), 0.0, ""

    def __call__(self, name, value):
        self.missing.discard(name)
        expected = self.kept[name].double()
        off = ((value.double() - expected).abs().max() / expected.abs().max().clamp(min=1e-2)).item()
        if not off <= self.worst:
            self.worst, self.where = off, name

    def result(self):
        return (float("inf"), min(self.missing)) if self.missing else (self.worst, self.where)


def apart(a, b):
    """The largest difference of two dictionaries of tensors."""
    found = Apart(b)
    for name in b:
        found(name, a[name])
    return found.result()


class Reference:
    """A model, what it learns of, and what one device makes of it, which one process has found and ranks read from its file,
    as one page cache: copies on every rank would fill the memory."""

    def __init__(self, make, data, dtype, file):
        torch.manual_seed(1)
        self.model, self.file = make().to(dtype), file
        inputs, self.targets = data(BATCH)
        self.inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
        self.element = torch.empty(0, dtype=dtype).element_size()

    def find(self):
        first, after = Kept(), Kept()
        losses, _ = train(self.model, self.inputs, self.targets, contextlib.nullcontext, first, after)
        torch.save((losses, dict(first), dict(after)), self.file)

    def read(self):
        self.losses, self.first, self.after = torch.load(self.file, mmap=True)
        return self


def find_reference(*arguments):
    Reference(*arguments).find()
    return True


def compare_bytes(case, sent, moved):
    most = BYTES * case.bytes + SLACK
    less = case.bytes - sent
    if case.counted and not (-most <= less and (case.at_most or less <= most)):
        yield f"{sent:.0f} bytes are sent, the program says {case.bytes}"
    if case.moves and abs(moved - case.moved) > MOVED * case.moved + SLACK:
        yield f"{moved:.0f} bytes are moved, and DTensor is said to move {case.moved:.0f}"


def check(case, reference, tolerance):
    """What there is to say of it: what differs, and what is wrong with that."""
    import cleave.torch
    model = cleave.torch.apply(copy.deepcopy(reference.model), case.plan)
    first, after = Apart(reference.first), Apart(reference.after)
    losses, counted = train(model, reference.inputs, reference.targets, cleave.torch.Traffic, first, after)
    sent = torch.tensor([float(counted.bytes), sum(counted.by_kind.get(kind, 0.0) for kind in AMONG)], dtype=torch.double)
    dist.all_reduce(sent)
    sent, among = (sent * 4 / reference.element).tolist()  # the program's are f32
    found = {"loss": (max(abs(x - y) for x, y in zip(losses, reference.losses)), ""), "gradient": first.result(),
             "parameter": after.result()}
    wrong = [f"{what} {name} is off by {off:.1e}" for what, (off, name) in found.items() if not off <= tolerance]
    wrong += compare_bytes(case, sent, sent - among)
    if counted.unknown:
        wrong.append(f"not counted: {counted.unknown}")
    return {"model": case.name, "label": case.label, "ranks": dist.get_world_size(), "mesh": case.mesh, "wrong": wrong,
            **{what: off for what, (off, _) in found.items()},
            "bytes": share(sent, case.bytes), "bytes_compared": case.counted and not case.at_most,
            "moved": share(sent - among, case.moved), "moved_compared": case.moves}


def share(a, b):
    return a / b if b else 1.0


def say(case, row):
    compared = "(not compared)" if not case.counted else "(at most)" if case.at_most else ""
    print(f"{case.name} {case.label} on {row['ranks']}: {'; '.join(row['wrong']) or 'as one device'}; bytes {row['bytes']:.3f} "
          f"{compared}, of what DTensor moves {row['moved']:.3f} {'' if case.moves else '(not compared)'}", flush=True)


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


def check_renamed(case, reference):
    """A model whose files have other names than it does, by which the plan knows it, as its framework says."""
    import cleave.torch
    framework = types.ModuleType("transformers.core_model_loading")
    framework.revert_weight_conversion = lambda model, state: {
        name.replace("body.", "").replace("head.inner", "4"): x for name, x in state.items()}
    sys.modules[framework.__name__] = framework
    layers = list(copy.deepcopy(reference.model))
    model = torch.nn.ModuleDict({"body": torch.nn.Sequential(*layers[:-1]), "head": torch.nn.ModuleDict({"inner": layers[-1]})})
    model.forward, model.config = lambda x: model["head"]["inner"](model["body"](x)), {}
    model = cleave.torch.apply(model, case.plan)
    del sys.modules[framework.__name__]
    losses, _ = train(model, reference.inputs, reference.targets, contextlib.nullcontext, lambda *_: None, lambda *_: None)
    placed = all(isinstance(p, torch.distributed.tensor.DTensor) for p in model.parameters())
    if placed and max(abs(x - y) for x, y in zip(losses, reference.losses)) <= TOLERANCE:
        return True
    print(f"under other names losses are {losses}, of one device {reference.losses}", flush=True)
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


def work(cases, of, other, options):
    """`of` makes the Reference.  Where `other`, a model that is none of the cases', is given, what is refused is tried, too."""
    ok, reference, rank = True, Reference(*of).read(), dist.get_rank()
    for case in cases:
        row = check(case, reference, FLOAT_TOLERANCE if options.float else TOLERANCE)
        ok = ok and not row["wrong"]
        if rank == 0 and (options.verbose or row["wrong"]):
            say(case, row)
        if rank == 0 and options.rows:
            with open(options.rows, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
    if other is not None:
        ok = check_refusals(cases[0], reference.model, other()) and ok
    if cases[0].name == "perceptron" and not options.float:
        ok = check_renamed(cases[-1], reference) and ok
    return ok


def options_of(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("cleave"), parser.add_argument("tree")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--layouts", type=int, default=5)
    parser.add_argument("--models", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--float", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--limit", type=int, default=gloo.LIMIT, help="seconds of all plans of a model, 0: as long as they take")
    parser.add_argument("--folder", help="keep models, layouts and plans here")
    parser.add_argument("--rows", help="append a line of JSON for each plan to this file")
    return parser.parse_args(words)


def run_cases(tools, name, make, data, ranks, other, options):
    """All plans of a model; are they as one device, and how many are there?"""
    torch.manual_seed(0)
    cases = list(tools.cases(name, make, data, ranks, options.layouts, options.seed))
    cut = {axis for case in cases for axis in case.experts}
    if name in tools.models.HAVE_EXPERTS and options.layouts > 2 and not cut >= set(tools.models.EXPERT_AXES):
        print(f"{name}: of {', '.join(tools.models.EXPERT_AXES)} experts are cut by {cut} alone")
        return False, len(cases)
    of = make, data, torch.float if options.float else torch.double, os.path.join(tools.folder, f"{name}.reference")
    ok = (gloo.all_succeed(find_reference, 1, *of, limit=options.limit) and
          gloo.all_succeed(work, ranks, cases, of, other, options, limit=options.limit))
    return ok, len(cases)


def main(words=None):
    a = options_of(words)
    os.environ["CLEAVE"] = a.cleave
    sys.path[:0] = [os.path.join(a.tree, "python"), os.path.dirname(os.path.abspath(__file__))]
    import cleave
    import cleave.torch
    import models
    failed, n = 0, 0
    names = list({"": models.QUICK, "all": models.MODELS}.get(a.models) or a.models.split(","))
    for ranks in map(int, a.ranks.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            tools = Tools(a.folder or folder, cleave, models)
            for name in names:
                other = next(m for m in models.QUICK if m != name) if name == names[0] else None
                ok, cases = run_cases(tools, name, *models.MODELS[name], ranks, other and models.MODELS[other][0], a)
                failed, n = failed + (not ok), n + cases
    if failed:
        sys.exit(1)
    print(f"{n} plans in PyTorch {torch.__version__} on {a.ranks} ranks: all as one device")


if __name__ == "__main__":
    main()
