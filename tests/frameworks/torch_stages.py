#!/usr/bin/env python3
"""Stages and micro-batches in PyTorch: on gloo ranks here, each plan trains as one device does, and sends what the program
says.

usage: torch_stages.py CLEAVE TREE [--ranks 2,4] [--only WORDS] [--every] [--verbose]

Of a chain of dense layers, a language model of GPT's sort and one of Llama's: stages on single ranks, in every kind of schedule, with modules that run again; and micro-batches without stages.  Three steps of SGD in
double: losses, gradients of the first step and parameters are those of one device to 1e-10, and where stages are on
single ranks the bytes sent are those of the program of the layout that was read back.  Then what is refused.
Exits 77 where there is no PyTorch.
"""
import argparse
import contextlib
import copy
import json
import os
import sys
import tempfile

try:
    import torch
    import torch._dynamo  # once, before ranks are forked
    import torch.distributed as dist
    import torch.multiprocessing
except ImportError as error:
    print(f"skipped: {error}; ./bootstrap frameworks sets PyTorch up")
    sys.exit(77)

from torch_plans import BATCH, MACHINE, TOLERANCE, apart, refused, whole

# model, ranks, groups, stages, kind, micro-batches, what is cut within a group, is everything recomputed
CASES = [("perceptron", 2, 2, 2, "gpipe", 2, None, False), ("perceptron", 2, 2, 2, "1f1b", 4, None, False),
         ("perceptron", 2, 1, 1, "1f1b", 2, "n", False), ("perceptron", 2, 1, 1, "gpipe", 4, "c", False),
         ("language", 2, 2, 2, "1f1b", 2, None, True), ("language", 2, 2, 4, "interleaved", 4, None, False),
         ("llama", 2, 2, 2, "gpipe", 4, None, False), ("llama", 2, 2, 2, "zb-h1", 4, None, False),
         ("llama", 2, 1, 1, "1f1b", 4, "n", True),
         ("language", 4, 4, 4, "gpipe", 2, None, False), ("llama", 4, 4, 4, "1f1b", 4, None, False),
         ("llama", 4, 1, 1, "1f1b", 2, "n", False)]
# By hand: all of gpipe and 1f1b.
EVERY = [(model, ranks, ranks, ranks, kind, m, None, False)
         for model in ("perceptron", "language", "llama") for ranks in (2, 4)
         for kind in ("gpipe", "1f1b") for m in (2, 4) if (model, ranks) != ("perceptron", 4)]


def make_layout(cleave, file, given, base, case):
    """Stages that begin with norms, or where there are none with any module; in a group operators are cut by this axis."""
    _, ranks, groups, stages, kind, m, axis, again = case
    operators = cleave.run("show", *given)["operators"]
    names, width = list(operators), ranks // groups
    modules = [n for n in names if "norm" in n] or [n for n in names if operators[n]["parameters"] > 0]
    begins = [modules[len(modules) * s // stages] for s in range(1, stages)]
    placed, stage = {}, 0
    for name in names:
        stage += name in begins
        first = stage % groups * width
        axes = operators[name]["axes"]
        wanted = next((a for a in axes if a == axis or (axis == "n" and a == "b0")), None)
        split = wanted is not None and width > 1 and not (wanted == "n" and axes["n"] % (width * m))
        placed[name] = {"split": {wanted: width} if split else {}, "replicas": 1 if split else width,
                        "devices": list(range(first, first + width))}
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
    def __init__(self, cleave, folder, machine, case, model, inputs):
        self.name, self.ranks, self.kind = case[0], case[1], case
        file = os.path.join(folder, "_".join(map(str, case)))
        onnx, given = write(cleave, folder, case[0], model, inputs)
        cleave.run("search", "--model", onnx, *given, "--machine", machine, "--devices", case[1], "--method", "data-parallel",
                   "-o", file + ".base.json")
        with open(file + ".base.json", encoding="utf-8") as stream:
            base = json.load(stream)
        make_layout(cleave, file + ".layout.json", [onnx, *given], base, case)
        self.plan = file + ".plan.json"
        said = cleave.run("export", "--to", "torch", "--model", onnx, *given, "--layout", file + ".layout.json",
                          "--machine", machine, "--read-back", file + ".back.json", "-o", self.plan)
        self.bytes = said["exported"]["bytes_sent"]
        self.counted = case[1] == case[2]
        plan = cleave.load(self.plan)
        assert plan.schedule.micro_batches == case[5] and len(plan.schedule.stages) == (case[3] if case[3] > 1 else 0), plan
        assert bool(plan.recompute) == case[7], plan.recompute

    def __str__(self):
        name, ranks, groups, stages, kind, m, axis, again = self.kind
        return (f"{name} on {ranks}: {stages} stages on {groups} groups, {kind}, {m} micro-batches"
                f"{', cut by ' + axis if axis else ''}{', recomputed' if again else ''}")


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


def train(model, inputs, targets, traffic):
    import cleave.torch
    optimizer, losses, first = torch.optim.SGD(model.parameters(), lr=0.1), [], {}
    step_of = cleave.torch.steps(model)
    for step in range(3):
        with traffic() as counted:
            optimizer.zero_grad()
            losses.append(step_of(*inputs, targets).item())
        if step == 0:
            first = {n: whole(p.grad).clone() for n, p in model.named_parameters()}
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
    if case.counted and abs(sent - case.bytes) > 0.01 * case.bytes + 256:
        wrong.append(f"{sent:.0f} bytes are sent, the program says {case.bytes}")
    if dist.get_rank() == 0 and (verbose or wrong):
        print(f"{case}: {'; '.join(wrong) or 'as one device'}; {sent:.0f} of {case.bytes} bytes"
              f"{'' if case.counted else ' (not compared)'}", flush=True)
    return not wrong


def check_refusals(case, make, inputs, targets):
    import cleave.torch
    model = cleave.torch.apply(make(), case.plan)
    few = tuple(x[:BATCH - 1] for x in inputs)
    return all([refused("the model runs in stages", lambda: model(*inputs)),
                refused("is not cut into", lambda: cleave.torch.steps(model)(*few, targets[:BATCH - 1])),
                refused("no module", lambda: cleave.torch.apply(torch.nn.Sequential(), case.plan))])


def work(rank, ranks, cases, port, verbose, models):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
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
    chain = next((c for c in cases if c.name == "perceptron" and c.kind[3] > 1), None)
    if chain is not None:
        model, inputs, targets, _ = known["perceptron"]
        ok = check_refusals(chain, lambda: copy.deepcopy(model), inputs, targets) and ok
    dist.destroy_process_group()
    sys.exit(0 if ok else 1)


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
    made = {**models.MODELS, "language": (lambda: models.Language(layers=2), models.MODELS["language"][1])}
    failed, n = 0, 0
    for ranks in map(int, a.ranks.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            machine = os.path.join(folder, "machine.json")
            with open(machine, "w", encoding="utf-8") as stream:
                json.dump(MACHINE, stream)
            cases = [Case(cleave, folder, machine, case, made[case[0]][0](), made[case[0]][1](4)[0])
                     for case in (EVERY if a.every else CASES) if case[1] == ranks and a.only in " ".join(map(str, case))]
            n += len(cases)
            if not cases:
                continue
            port = 27000 + os.getpid() % 1000 + ranks
            try:
                torch.multiprocessing.start_processes(work, (ranks, cases, port, a.verbose, made), nprocs=ranks,
                                                      start_method="fork")
            except torch.multiprocessing.ProcessExitedException:
                failed += 1
    if failed:
        sys.exit(1)
    print(f"{n} plans in stages and micro-batches in PyTorch {torch.__version__} on {a.ranks} ranks: all as one device")


if __name__ == "__main__":
    main()
