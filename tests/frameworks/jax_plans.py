#!/usr/bin/env python3
"""Plans in JAX: on forced host devices, each trains as one device does.

usage: jax_plans.py CLEAVE TREE [--devices 8] [--layouts N] [--models NAME,...|all] [--seed S] [--float] [--verbose]

Of every model (jax_models.py) the plan that `cleave search --for jax` finds, and those of N layouts drawn at random;
three steps in double: losses, gradients of the first step and parameters are those of one device to 1e-10 (with --float in
single precision, to 1e-4).  XLA chooses its collectives itself: those of the compiled step are counted by kind, beside those
of the program of the layout that is read back, whose sum is what that sends.  Exits 77 where there is no JAX.
"""
import argparse
import json
import os
import random
import statistics
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("cleave"), parser.add_argument("tree")
parser.add_argument("--devices", type=int, default=8)
parser.add_argument("--layouts", type=int, default=6)
parser.add_argument("--models", default="mlp,lenet5")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--float", action="store_true")
parser.add_argument("--verbose", action="store_true")
a = parser.parse_args()
os.environ.update(XLA_FLAGS=f"--xla_force_host_platform_device_count={a.devices} --xla_cpu_multi_thread_eigen=false",
                  JAX_PLATFORMS="cpu", CLEAVE=a.cleave)
sys.path[:0] = [os.path.join(a.tree, "python"), os.path.dirname(os.path.abspath(__file__))]
try:
    import jax
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
import jax.numpy as jnp
import numpy

import cleave
import cleave.jax
from drawn import MACHINE, draw_even
from jax_models import MODELS, Net

jax.config.update("jax_enable_x64", not a.float)
TOLERANCE, RATE = 1e-4 if a.float else 1e-10, 0.1
KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute", "messages")


def make_step(model, plan):
    """The user's, compiled as a whole, so that all that is sent is in it."""
    def loss_of(params, x, t):
        y = model.forward(Net(plan, params), x)
        y = jax.nn.log_softmax(plan.logits(y) if plan else y)
        return -jnp.mean(jnp.take_along_axis(y, t[..., None], -1))

    def step(params, x, t):
        loss, gradients = jax.value_and_grad(loss_of)(params, x, t)
        return loss, gradients, {name: p - RATE * gradients[name] for name, p in params.items()}

    return step


def train(step, params, x, t):
    losses, first = [], None
    for _ in range(3):
        loss, gradients, params = step(params, x, t)
        losses.append(float(loss))
        first = first or {name: numpy.asarray(g) for name, g in gradients.items()}
    return losses, first, {name: numpy.asarray(p) for name, p in params.items()}


def apart(a, b):
    return max(float(abs(a[n] - b[n]).max() / max(abs(b[n]).max(), 1e-2)) for n in b)


def add_up(sent):
    """By kind: how often, and bytes."""
    by_kind = {}
    for kind, n_bytes, times in sent:
        n, total = by_kind.get(kind, (0, 0))
        by_kind[kind] = n + times, total + n_bytes
    return by_kind


def say(by_kind):
    return ", ".join(f"{by_kind[kind][0]} {kind} {by_kind[kind][1] / 2**20:.3f}" for kind in KINDS if kind in by_kind) or "nothing"


class Case:
    """Layouts of a model, and one device's numbers."""

    def __init__(self, name, folder, numbers):
        self.name, self.model, self.folder = name, MODELS[name], folder
        self.file = os.path.join(a.tree, "configs", "models", self.model.file) if isinstance(self.model.file, str) \
            else self.path("config")
        if not isinstance(self.model.file, str):
            self.write("config", self.model.file)
        self.machine = self.path("machine")
        self.write("machine", MACHINE)
        self.given = ["--model", self.file, "--batch", self.model.batch, *self.model.options]
        dtype = numpy.float32 if a.float else numpy.float64
        self.operators = cleave.run("show", *self.given[1:])["operators"]
        cleave.run("search", *self.given, "--machine", self.machine, "--devices", a.devices, "--for", "jax", "--threads", 1,
                   "-o", self.path("found"))
        plan = self.export("found")
        shapes = {**{n: entry.shape for n, entry in plan.plan.parameters.items()}, **self.model.others}
        self.params = {n: (numbers.standard_normal(s) / numpy.sqrt(numpy.prod(s[1:]) if len(s) > 1 else 1)).astype(dtype)
                       for n, s in shapes.items()}
        shape = (self.model.batch, *self.model.x)
        self.x = numbers.integers(0, self.model.classes, shape) if self.model.ids else numbers.standard_normal(shape).astype(dtype)
        self.t = numbers.integers(0, self.model.classes, shape if self.model.ids else shape[:1])
        self.one = train(jax.jit(make_step(self.model, None)), {n: jnp.asarray(p) for n, p in self.params.items()}, self.x, self.t)

    def path(self, what):
        return os.path.join(self.folder, f"{self.name}.{what}.json")

    def write(self, what, data):
        with open(self.path(what), "w", encoding="utf-8") as stream:
            json.dump(data, stream)

    def export(self, label):
        cleave.run("export", "--to", "jax", *self.given, "--layout", self.path(label), "--read-back", self.path(label + ".back"),
                   "-o", self.path(label + ".plan"))
        return cleave.jax.Plan(self.path(label + ".plan"))

    def labels(self):
        """The found layout, then those that are drawn, in files of these names."""
        yield "found"
        with open(self.path("found"), encoding="utf-8") as stream:
            layout = {key: value for key, value in json.load(stream).items() if key != "schedule"}
        for i in range(a.layouts):
            rng = random.Random(f"{self.name} {a.devices} {a.seed} {i}")
            draw_even(rng, layout, self.operators, a.devices, self.params)
            self.write(f"drawn {i}", layout)
            yield f"drawn {i}"

    def program(self, label):
        """What the program sends of what JAX is told."""
        said = cleave.run("simulate", *self.given, "--machine", self.machine, "--layout", self.path(label + ".back"),
                          "--closed-form")
        sent = add_up((s["kind"], s["bytes_sent"], s["times"]) for s in said.get("sent_by", []))
        total = sum(n_bytes for _, n_bytes in sent.values())
        if total != said["bytes_sent"]:
            sys.exit(f"{self.name} {label}: {total} bytes by kinds are {said['bytes_sent']} in all")
        return sent, total

    def check(self, label):
        plan = self.export(label)
        params = plan.put({n: jnp.asarray(p) for n, p in self.params.items()})
        kept = {n: plan.stored(n, p.ndim) for n, p in params.items()}
        step = jax.jit(make_step(self.model, plan), out_shardings=(None, kept, kept)).lower(params, self.x, self.t).compile()
        losses, first, after = train(step, params, self.x, self.t)
        off = {"loss": max(abs(p - q) for p, q in zip(self.one[0], losses)), "gradient": apart(first, self.one[1]),
               "parameter": apart(after, self.one[2])}
        sent = [(kind, n_bytes, 1) for kind, _, n_bytes in
                cleave.jax.collectives(step.as_text(), a.devices, lambda kind: 1 if kind == "pred" else 4)]
        mine, total = self.program(label)
        wrong = [f"{what} is off by {n:.1e}" for what, n in off.items() if not n < TOLERANCE]
        ratio = sum(n_bytes for _, n_bytes, _ in sent) / total if total else None
        if wrong or a.verbose:
            print(f"{self.name} {label} on {a.devices}, mesh {plan.plan.mesh}: {'; '.join(wrong) or 'as one device'}; MiB sent by "
                  f"XLA: {say(add_up(sent))}; by the program: {say(mine)}", flush=True)
        return not wrong, off, ratio


def main():
    numbers, failed, n = numpy.random.default_rng(a.seed), 0, 0
    for name in MODELS if a.models == "all" else a.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            case = Case(name, folder, numbers)
            rows = [case.check(label) for label in case.labels()]
        failed, n = failed + sum(not ok for ok, _, _ in rows), n + len(rows)
        worst = {what: max(off[what] for _, off, _ in rows) for what in rows[0][1]}
        ratios = [ratio for _, _, ratio in rows if ratio is not None]
        print(f"{name} on {a.devices} devices: {len(rows)} plans, off by {worst['loss']:.1e} (loss), {worst['gradient']:.1e} (gradient), "
              f"{worst['parameter']:.1e} (parameter); XLA sends {min(ratios):.2f} to {max(ratios):.2f} times what the program does, "
              f"{statistics.median(ratios):.2f} in the median" if ratios else f"{name}: nothing is sent", flush=True)
    if failed:
        sys.exit(f"{failed} of {n} plans are wrong")
    print(f"{n} plans in JAX {jax.__version__} on {a.devices} devices: all as one device")


main()
