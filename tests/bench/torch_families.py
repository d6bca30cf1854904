#!/usr/bin/env python3
"""Plans of models that are known by their config.json, in transformers' own classes of them: what trains as one device.

usage: torch_families.py CLEAVE TREE [--ranks 2,4] [--layouts 2] [--models NAME,...] [--kinds KIND,...] [--verbose]

For every family of tests/data/make_family_oracles.py, in its tiny configuration, and number of gloo ranks: a plan that
`search --for torch` finds of each kind, and layouts that are drawn, every second with operators on some ranks alone.  Three
steps of SGD of a batch of 8 in double: losses, gradients of the first step and parameters are those of one device to 1e-10.
A line for each plan: ok, FAILED and why, or REFUSED by search or export and why.  Needs PyTorch and transformers (made with
2.15 and 5.24).
"""
import argparse
import copy
import json
import os
import random
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, os.pardir, folder) for folder in ("frameworks", "data")]

import torch
import torch._dynamo  # once, before ranks are forked
import torch.distributed as dist
import torch.nn.functional as F

import make_family_oracles as families
import ranks as gloo
from drawn import MACHINE, draw_operator, primes
from torch_plans import Apart, Kept, whole

BATCH, TOLERANCE = 8, 1e-10
KINDS = {"found": (), "zero 1": ("--zero", 1), "zero 3": ("--zero", 3), "micro-batches": ("--micro-batches", 2),
         "stages": ("--stages", 2, "--micro-batches", 2), "recompute": ("--micro-batches", 2, "--recompute", "full")}


def fields_of(name):
    fields = dict(families.MODELS[name][1])
    fields.pop("expert_capacity", None)
    return fields


def make(name):
    """The model, its parameters drawn, what it is given by name, and targets."""
    fields = fields_of(name)
    kind = fields.pop("model_type")
    torch.manual_seed(3)
    config = families.configuration(kind, fields)
    config.use_cache = False
    config._experts_implementation = "eager"
    model = families.made(families.MODELS[name][0], config).double()
    with torch.no_grad():
        for p in model.parameters():
            p += 0.1 * torch.randn_like(p) * p.requires_grad
    data, targets = families.inputs_of(kind, fields, BATCH)
    return model.train(), {n: x.double() if x.is_floating_point() else x for n, x in data.items()}, targets


def loss_of(given, targets):
    logits = next(given[n] for n in ("logits", "image_embeds", "text_embeds", "pooler_output") if n in given)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def train(model, data, targets, first, after):
    import cleave.torch
    optimizer, losses, step_of = torch.optim.SGD(model.parameters(), lr=0.1), [], cleave.torch.steps(model, loss_of)
    for step in range(3):
        optimizer.zero_grad()
        losses.append(step_of(targets, **data).item())
        if step == 0:
            for name, p in model.named_parameters():
                if p.grad is not None:
                    first(name, whole(p.grad))
        optimizer.step()
    for name, value in model.state_dict().items():
        after(name, whole(value))
    return losses


def single_is_double():
    """The framework's classes go to single precision here and there, whose rounding would hide what is wrong."""
    torch.float32 = torch.float = torch.double
    torch.Tensor.float = torch.Tensor.double


def check(plan, model, data, targets, reference):
    import cleave.torch
    losses, first, after = reference
    first, after = Apart(first), Apart(after)
    found = train(cleave.torch.apply(model, plan), data, targets, first, after)
    for apart in (first, after):  # with stages a rank has its own alone
        missing = [None] * dist.get_world_size()
        dist.all_gather_object(missing, apart.missing)
        apart.missing = set.intersection(*missing)
    off = {"loss": (max(abs(a - b) for a, b in zip(found, losses)), ""), "gradient": first.result(), "parameter": after.result()}
    wrong = [f"{what} {name} is off by {by:.1e}" for what, (by, name) in off.items() if not by <= TOLERANCE]
    if wrong:
        raise RuntimeError("; ".join(wrong))


def work(name, plan, said):
    single_is_double()
    model, data, targets = make(name)
    first, after = Kept(), Kept()
    losses = train(copy.deepcopy(model), data, targets, first, after)
    try:
        check(plan, model, data, targets, (losses, first, after))
    except Exception as error:
        with open(said, "w", encoding="utf-8") as stream:
            stream.write(f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}")
        raise
    return True


def plans_of(cleave, folder, name, machine, ranks, n):
    """(kind, plan or None, why there is none)."""
    file = os.path.join(folder, name)
    with open(file + ".json", "w", encoding="utf-8") as stream:
        json.dump(fields_of(name), stream)
    given = ["--model", file + ".json", "--batch", BATCH, *([] if "image_size" in fields_of(name) else ["--sequence", 6])]
    export = ["export", "--to", "torch", *given, "--machine", machine]

    def exported(kind, layout):
        plan = f"{file}.{ranks}.{kind}.plan.json"
        cleave.run(*export, "--layout", layout, "-o", plan)
        return kind, plan, ""

    base = None
    for kind, options in KINDS.items():
        layout = f"{file}.{ranks}.{kind}.layout.json"
        try:
            cleave.run("search", *given, "--machine", machine, "--devices", ranks, "--threads", 1, "--for", "torch", *options,
                       "-o", layout)
            base = base or layout
            yield exported(kind, layout)
        except cleave.CleaveError as error:
            yield kind, None, str(error)
    if base is None:
        return
    axes = {o: {a: e for a, e in v["axes"].items() if a not in v.get("never_split", {})}
            for o, v in cleave.run("show", *given[1:])["operators"].items()}
    with open(base, encoding="utf-8") as stream:
        layout = {k: v for k, v in json.load(stream).items() if k not in ("schedule", "parameters")}
    for i in range(n):
        rng = random.Random(f"{name} {ranks} {i}")
        mesh = rng.choice([[ranks], primes(ranks)])
        layout["operators"] = {o: draw_operator(rng, a, mesh, i % 2 == 1) for o, a in axes.items()}
        drawn = f"{file}.{ranks}.drawn {i}.layout.json"
        with open(drawn, "w", encoding="utf-8") as stream:
            json.dump(layout, stream)
        try:
            yield exported(f"drawn {i}", drawn)
        except cleave.CleaveError as error:
            yield f"drawn {i}", None, str(error)


def say_what(folder, name, ranks, plan, verbose):
    """Trains it; "ok", or what has failed."""
    said, stderr = os.path.join(folder, "said"), os.dup(2)
    with open(said, "w", encoding="utf-8"), open(os.devnull, "w", encoding="utf-8") as nowhere:
        if not verbose:
            os.dup2(nowhere.fileno(), 2)
        ok = gloo.all_succeed(work, ranks, name, plan, said, limit=60)
        os.dup2(stderr, 2)
    os.close(stderr)
    with open(said, encoding="utf-8") as stream:
        return "ok" if ok else f"FAILED {stream.read()}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cleave"), parser.add_argument("tree")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--layouts", type=int, default=2)
    parser.add_argument("--models", default=",".join(families.MODELS))
    parser.add_argument("--kinds", default="")
    parser.add_argument("--verbose", action="store_true")
    a = parser.parse_args()
    os.environ["CLEAVE"] = a.cleave
    sys.path[:0] = [os.path.join(a.tree, "python")]
    import cleave
    import cleave.torch
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        machine = os.path.join(folder, "machine.json")
        with open(machine, "w", encoding="utf-8") as stream:
            json.dump(MACHINE, stream)
        for name, ranks in ((name, int(n)) for name in a.models.split(",") for n in a.ranks.split(",")):
            for kind, plan, why in plans_of(cleave, folder, name, machine, ranks, a.layouts):
                if kind.startswith(tuple(a.kinds.split(","))):
                    what = say_what(folder, name, ranks, plan, a.verbose) if plan else f"REFUSED {why}"
                    failed += what.startswith("FAILED")
                    print(f"{name.removeprefix('family_')} {ranks} {kind}: {what}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
