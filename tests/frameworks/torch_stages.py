#!/usr/bin/env python3
"""Stages and micro-batches in PyTorch: on gloo ranks here, each plan trains as one device does, and sends what the program
says.

usage: torch_stages.py CLEAVE TREE [--ranks 2,4] [--only WORDS] [--every] [--verbose]

Of a chain of dense layers, a language model of GPT's sort, its head tied or not, and one of Llama's: stages on single ranks and on several, in
every kind of schedule, with modules that run again; micro-batches without stages; and what `search --for torch` finds,
which has to be exported as it is.  Three steps of SGD in double: losses, gradients of the first step and parameters are
those of one device to 1e-10, and the bytes sent those of the program of the layout that was read back, where stages are
on single ranks or every operator is a module.  Then what is refused.
Exits 77 where there is no PyTorch.
"""
import argparse
import contextlib
import copy
import itertools
import json
import math
import os
import sys
import tempfile

try:
    import torch
    import torch._dynamo  # once, before ranks are forked
    import torch.distributed as dist
except ImportError as error:
    print(f"skipped: {error}; ./bootstrap frameworks sets PyTorch up")
    sys.exit(77)

import ranks as gloo
from models import ALL_MODULES
from torch_plans import BATCH, BYTES, MACHINE, TOLERANCE, apart, refused, whole

# model, ranks, groups, stages, kind, micro-batches, what is cut within a group (a letter for each dimension of its mesh),
# is everything recomputed
CASES = [("perceptron", 2, 2, 2, "gpipe", 2, None, False), ("perceptron", 2, 2, 2, "1f1b", 4, None, False),
         ("perceptron", 2, 1, 1, "1f1b", 2, "n", False), ("perceptron", 2, 1, 1, "gpipe", 4, "c", False),
         ("language", 2, 2, 2, "1f1b", 2, None, True), ("language", 2, 2, 4, "interleaved", 4, None, False),
         ("llama", 2, 2, 2, "gpipe", 4, None, False), ("llama", 2, 2, 2, "zb-h1", 4, None, False),
         ("llama", 2, 1, 1, "1f1b", 4, "n", True),
         ("perceptron", 4, 2, 2, "1f1b", 2, "n", False), ("perceptron", 4, 2, 2, "gpipe", 2, "k", False),
         ("llama", 4, 2, 4, "interleaved", 2, "n", False), ("language", 4, 2, 2, "1f1b", 4, "k", True),
         ("language", 4, 2, 2, "zb-h1", 2, "n", False),
         ("llama", 4, 2, 2, "zb-h1", 2, "k", False),
         ("language", 4, 4, 4, "gpipe", 2, None, False), ("llama", 4, 4, 4, "1f1b", 4, None, False),
         ("llama", 4, 1, 1, "1f1b", 2, "n", False),
         ("tied", 2, 2, 2, "gpipe", 2, None, False), ("tied", 2, 2, 2, "1f1b", 4, None, True),
         ("tied", 2, 2, 4, "interleaved", 4, None, False), ("tied", 2, 2, 2, "zb-h1", 4, None, False),
         ("tied", 4, 4, 4, "1f1b", 4, None, False), ("tied", 4, 2, 2, "1f1b", 2, "n", False),
         ("tied", 4, 2, 4, "interleaved", 2, "k", False),
         ("mixture", 2, 2, 2, "1f1b", 2, None, False), ("mixture", 2, 1, 1, "1f1b", 2, "n", False),
         ("mixture", 4, 2, 2, "gpipe", 2, "e", False), ("mixture", 4, 2, 2, "1f1b", 2, "n", False)]
# model, ranks, what is asked of `search --for torch`
FOUND = [("perceptron", 2, ("--micro-batches", 2)), ("perceptron", 4, ("--stages", 2)),
         ("language", 4, ("--stages", 2, "--micro-batches", 2)),
         ("tied", 4, ("--stages", 2, "--micro-batches", 2)),
         ("llama", 4, ("--stages", 2, "--micro-batches", 2, "--recompute", "full"))]
# By hand: all of gpipe and 1f1b, and on 8 ranks meshes of two dimensions in a group.
EVERY = [("perceptron", 8, 2, 2, "1f1b", 2, "nk", False), ("llama", 8, 2, 2, "gpipe", 2, "nk", True),
         ("language", 8, 2, 4, "interleaved", 2, "kn", False)] + [(model, ranks, ranks, ranks, kind, m, None, False)
         for model in ("perceptron", "language", "llama") for ranks in (2, 4)
         for kind in ("gpipe", "1f1b") for m in (2, 4) if (model, ranks) != ("perceptron", 4)]


def place(axes, wanted, sizes, first):
    """An operator on a mesh whose dimensions cut these axes, or None: repeat it; devices in the order of a layout file."""
    order = [i for key in (None, *axes) for i, axis in enumerate(wanted) if axis == key]
    devices = [first + sum(digit * math.prod(sizes[i + 1:]) for digit, i in zip(digits, order))
               for digits in itertools.product(*(range(sizes[i]) for i in order))]
    return {"split": {a: math.prod(n for n, w in zip(sizes, wanted) if w == a) for a in wanted if a},
            "replicas": math.prod(n for n, w in zip(sizes, wanted) if w is None), "devices": devices}


def make_layout(cleave, file, given, base, case):
    """Stages that begin with norms, or where there are none with any module; dimensions of a group's mesh cut these axes."""
    _, ranks, groups, stages, kind, m, letters, again = case
    operators = cleave.run("show", *given)["operators"]
    names, width, letters = list(operators), ranks // groups, letters or "-"
    sizes = [width] if len(letters) == 1 else [2] * len(letters)
    modules = [n for n in names if "norm" in n] or [n for n in names if operators[n]["parameters"] > 0]
    begins = [modules[len(modules) * s // stages] for s in range(1, stages)]
    placed, stage = {}, 0
    for name in names:
        stage += name in begins
        axes = operators[name]["axes"]
        wanted = [next((a for a in axes if a == letter or (letter == "n" and a == "b0")), None) for letter in letters]
        wanted = [None if axis == "n" and axes["n"] % (size * m) else axis for axis, size in zip(wanted, sizes)]
        placed[name] = place(axes, wanted, sizes, stage % groups * width)
    base = {k: v for k, v in base.items() if k not in ("schedule", "parameters")}
    base["operators"] = placed
    base["schedule"] = {"micro_batches": m, "kind": kind, "stages": begins}
    if again:
        kept = {n for n in names if n.rpartition("/")[2].startswith("Add") or n.startswith("@") or ".mlp.add" in n}
        for name in set(names) - kept:
            placed[name]["recompute"] = True
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(base, stream)


class Case:
    """A layout, its plan, and what its program sends."""

    def __init__(self, cleave, file, label, given, machine, strict=()):
        self.label, self.ranks, self.plan = label, label[1], file + ".plan.json"
        said = cleave.run("export", "--to", "torch", "--model", *given, "--layout", file + ".layout.json", "--machine", machine,
                          *strict, "-o", self.plan)
        self.bytes, plan = said["exported"]["bytes_sent"], cleave.load(self.plan)
        self.name, self.schedule = label[0], plan.schedule
        # As torch_plans.py says; between stages on single ranks nothing else is sent than what programs send.
        even = not any("rounded up" in lost["why"] for lost in plan.lost)
        self.counted = not plan.mesh or (self.name in ALL_MODULES and len(plan.mesh) == 1 and plan.loss.axes[0] is not None
                                         and even)
        self.at_most = any("P" in part.output for part in plan.modules.values())
        self.recomputes = bool(plan.recompute)

    def __str__(self):
        s = self.schedule
        return (f"{' '.join(map(str, self.label))}: {len(s.stages)} stages on {s.groups} groups, {s.kind}, {s.micro_batches} "
                f"micro-batches{', recomputed' if self.recomputes else ''}")


def draw(cleave, folder, machine, case, model, inputs):
    """Of CASES."""
    name, ranks, groups, stages, kind, m, axis, again = case
    file = os.path.join(folder, "_".join(map(str, case)))
    onnx, given = write(cleave, folder, name, model, inputs)
    cleave.run("search", "--model", onnx, *given, "--machine", machine, "--devices", ranks, "--method", "data-parallel", "-o",
               file + ".base.json")
    with open(file + ".base.json", encoding="utf-8") as stream:
        base = json.load(stream)
    make_layout(cleave, file + ".layout.json", [onnx, *given], base, case)
    made = Case(cleave, file, (name, ranks, f"cut by {axis}" if axis else "whole"), [onnx, *given], machine)
    assert made.schedule.micro_batches == m and len(made.schedule.stages) == (stages if stages > 1 else 0), made
    assert made.schedule.groups == groups and made.recomputes == again, made
    return made


def find(cleave, folder, machine, case, model, inputs):
    """Of FOUND: what is found is what is exported, to the byte and the picosecond."""
    name, ranks, options = case
    file = os.path.join(folder, "_".join(map(str, (name, ranks, *options))))
    onnx, given = write(cleave, folder, name, model, inputs)
    found = cleave.run("search", "--model", onnx, *given, "--machine", machine, "--devices", ranks, "--for", "torch", "--threads",
                       1, *options, "-o", file + ".layout.json")
    made = Case(cleave, file, (name, ranks, "found", *options), [onnx, *given], machine, ["--strict"])
    assert made.bytes == found["bytes_sent"], (made.bytes, found)
    return made


def write(cleave, folder, name, model, inputs):
    config = getattr(model, "config", None)
    file = os.path.join(folder, f"{name}.{'json' if config else 'onnx'}")
    if config:
        with open(file, "w", encoding="utf-8") as stream:
            json.dump(config, stream)
        return file, ["--batch", BATCH, "--sequence", inputs[0].shape[1]]
    names = cleave.torch.export(model, inputs, file)
    floats = [i for i, x in zip(names, inputs) if x.is_floating_point()]
    return file, ["--batch", BATCH] + (["--inputs", ",".join(floats)] if floats else [])


# ---- on a rank ---------------------------------------------------------------------------------------------------


def gradients_of(model):
    return {n: whole(p.grad).clone() for n, p in model.named_parameters() if p.grad is not None}


def check_sums(case, reference, model, inputs, targets):
    """Of steps without zero_grad gradients add up, also where several groups have them."""
    import cleave.torch
    model = cleave.torch.apply(model, case.plan)
    step_of = cleave.torch.steps(model)
    for _ in range(2):
        step_of(*inputs, targets)
    twice = gradients_of(model)
    off, name = apart(twice, {n: 2 * reference[1][n] for n in twice})
    if not off <= TOLERANCE:
        print(f"{case}: the sum of two gradients of {name} is off by {off:.1e}", flush=True)
    return off <= TOLERANCE


def train(model, inputs, targets, traffic):
    import cleave.torch
    optimizer, losses, first = torch.optim.SGD(model.parameters(), lr=0.1), [], {}
    step_of = cleave.torch.steps(model)
    named = {"ids": inputs[0]} if inputs[0].dtype == torch.long else {}
    for step in range(3):
        with traffic() as counted:
            optimizer.zero_grad()
            losses.append(step_of(*(() if named else inputs), targets, **named).item())
        if step == 0:
            first = gradients_of(model)
        optimizer.step()
    return losses, first, {n: whole(p).clone() for n, p in model.state_dict().items()}, counted


def check(case, reference, model, inputs, targets, verbose):
    import cleave.torch
    model = cleave.torch.apply(model, case.plan)
    losses, gradients, parameters, counted = train(model, inputs, targets, cleave.torch.Traffic)
    sent = torch.tensor([float(counted.bytes)], dtype=torch.double)
    dist.all_reduce(sent)
    held = [None] * dist.get_world_size()
    dist.all_gather_object(held, list(parameters))
    sent, wrong = float(sent) / 2, []
    off = max(abs(x - y) for x, y in zip(losses, reference[0]))
    for what, (off, name) in (("loss", (off, "")),
                              ("gradient", apart(gradients, {n: reference[1][n] for n in gradients})),
                              ("parameter", apart(parameters, {n: reference[2][n] for n in parameters}))):
        if not off <= TOLERANCE:
            wrong.append(f"{what} {name} is off by {off:.1e}")
    if {n for names in held for n in names} != set(reference[2]):
        wrong.append("ranks together have not all parameters")
    most, less = BYTES * case.bytes + 256, case.bytes - sent
    if case.counted and not (-most <= less and (case.at_most or less <= most)):
        wrong.append(f"{sent:.0f} bytes are sent, the program says {case.bytes}")
    if dist.get_rank() == 0 and (verbose or wrong):
        print(f"{case}: {'; '.join(wrong) or 'as one device'}; bytes "
              f"{sent / case.bytes if case.bytes else 1:.3f}{' (not compared)' if not case.counted else ' (at most)' if case.at_most else ''}",
              flush=True)
    return not wrong


def check_refusals(case, make, inputs, targets):
    import cleave.torch
    model = cleave.torch.apply(make(), case.plan)
    few = tuple(x[:BATCH - 1] for x in inputs)
    return all([refused("the model runs in stages", lambda: model(*inputs)),
                refused("is not cut into", lambda: cleave.torch.steps(model)(*few, targets[:BATCH - 1])),
                refused("no module", lambda: cleave.torch.apply(torch.nn.Sequential(), case.plan))])


def work(cases, verbose, models):
    ok, known = True, {}
    for case in cases:
        if case.name not in known:
            torch.manual_seed(1)
            make, data = models[case.name]
            inputs, targets = data(BATCH)
            inputs = tuple(x.double() if x.is_floating_point() else x for x in inputs)
            if case.name != "perceptron":
                targets[:5] = -100  # micro-batches have different shares of the mean
            model = make().double()
            known[case.name] = model, inputs, targets, train(copy.deepcopy(model), inputs, targets, contextlib.nullcontext)
        model, inputs, targets, reference = known[case.name]
        ok = check(case, reference, copy.deepcopy(model), inputs, targets, verbose) and ok
    tied = next((c for c in cases if c.name == "tied"), None)
    if tied is not None:
        model, inputs, targets, reference = known["tied"]
        ok = check_sums(tied, reference, copy.deepcopy(model), inputs, targets) and ok
    chain = next((c for c in cases if c.name == "perceptron" and c.schedule.stages), None)
    if chain is not None:
        model, inputs, targets, _ = known["perceptron"]
        ok = check_refusals(chain, lambda: copy.deepcopy(model), inputs, targets) and ok
    return ok


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cleave"), parser.add_argument("tree")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--only", default="")
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    a = parser.parse_args()
    os.environ["CLEAVE"] = a.cleave
    sys.path[:0] = [os.path.join(a.tree, "python")]
    import cleave
    import cleave.torch
    import models


    def make_tied():
        model = models.Tied(layers=2)
        model.spare = torch.nn.Parameter(torch.ones(3))  # that nothing reads, and the plan does not know
        return model
    made = {**models.MODELS, "language": (lambda: models.Language(layers=2), models.MODELS["language"][1]),
            "tied": (make_tied, models.MODELS["tied"][1])}
    failed, n = 0, 0
    for ranks in map(int, a.ranks.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            machine = os.path.join(folder, "machine.json")
            with open(machine, "w", encoding="utf-8") as stream:
                json.dump(MACHINE, stream)
            cases = [make(cleave, folder, machine, case, made[case[0]][0](), made[case[0]][1](4)[0])
                     for make, known in ((draw, EVERY if a.every else CASES), (find, FOUND)) for case in known
                     if case[1] == ranks and a.only in " ".join(map(str, case))]
            n += len(cases)
            if not cases:
                continue
            failed += not gloo.all_succeed(work, ranks, cases, a.verbose, made)
    if failed:
        sys.exit(1)
    print(f"{n} plans in stages and micro-batches in PyTorch {torch.__version__} on {a.ranks} ranks: all as one device")


if __name__ == "__main__":
    main()
