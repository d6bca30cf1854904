#!/usr/bin/env python3
"""Plans in JAX: on forced host devices, each trains as one device does.

usage: jax_plans.py CLEAVE TREE [--devices 4] [--layouts N]

Of a perceptron (configs/models/mlp.onnx): the plan that `cleave search --for jax` finds, and those of N layouts drawn at
random; three steps in double, losses and parameters to 1e-10.  Exits 77 where there is no JAX.
"""
import argparse
import json
import os
import random
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("cleave"), parser.add_argument("tree")
parser.add_argument("--devices", type=int, default=4)
parser.add_argument("--layouts", type=int, default=6)
a = parser.parse_args()
os.environ.update(XLA_FLAGS=f"--xla_force_host_platform_device_count={a.devices}", JAX_PLATFORMS="cpu", CLEAVE=a.cleave)
sys.path[:0] = [os.path.join(a.tree, "python")]
try:
    import jax
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
import jax.numpy as jnp
import numpy

import cleave
import cleave.jax

jax.config.update("jax_enable_x64", True)
BATCH, MODEL = 32, os.path.join(a.tree, "configs", "models", "mlp.onnx")


def forward(plan, params, modules, x):
    for i, name in enumerate(modules):
        w, b = params[f"{name}.weight"], params[f"{name}.bias"]
        if plan:
            y = plan.after(name, plan.before(name, x) @ plan.weight(name, "weight", w).T) + plan.weight(name, "bias", b)
        else:
            y = x @ w.T + b
        x = jax.nn.relu(y) if i + 1 < len(modules) else y
    return plan.logits(x) if plan else x


def train(plan, params, modules, x, t):
    def loss_of(params):
        y = jax.nn.log_softmax(forward(plan, params, modules, x))
        return -jnp.mean(jnp.take_along_axis(y, t[:, None], 1))

    kept = {name: plan.stored(name, p.ndim) for name, p in params.items()} if plan else None
    step = jax.jit(jax.value_and_grad(loss_of))
    losses = []
    for _ in range(3):
        loss, gradients = step(params)
        params = {name: p - 0.1 * gradients[name] for name, p in params.items()}
        params = {name: jax.device_put(p, kept[name]) for name, p in params.items()} if plan else params
        losses.append(float(loss))
    return losses, params


def main():
    rng, numbers = random.Random(0), numpy.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        def file(name):
            return os.path.join(folder, name)

        machine = os.path.join(a.tree, "configs", "machines", "p100-4x4.json")
        given = ["--model", MODEL, "--batch", BATCH]
        cleave.run("search", *given, "--machine", machine, "--devices", a.devices, "--for", "jax", "-o", file("0.json"))
        with open(file("0.json"), encoding="utf-8") as stream:
            layout = json.load(stream)
        operators = cleave.run("show", MODEL, "--batch", BATCH)["operators"]
        for i in range(1, a.layouts + 1):
            for name, operator in operators.items():
                axis = rng.choice([None, *(n for n, e in operator["axes"].items() if e >= a.devices)])
                layout["operators"][name] = {"split": {axis: a.devices} if axis else {}, "devices": list(range(a.devices)),
                                             "replicas": 1 if axis else a.devices}
            with open(file(f"{i}.json"), "w", encoding="utf-8") as stream:
                json.dump(layout, stream)
        for i in range(a.layouts + 1):
            cleave.run("export", "--to", "jax", *given, "--layout", file(f"{i}.json"), "-o", file("plan.json"))
            plan = cleave.jax.Plan(file("plan.json"))
            shapes = {name: entry.shape for name, entry in plan.plan.parameters.items()}
            modules = list(plan.plan.modules)
            params = {name: numbers.standard_normal(shape) / numpy.sqrt(shape[-1]) for name, shape in shapes.items()}
            x = numbers.standard_normal((BATCH, shapes[f"{modules[0]}.weight"][1]))
            t = numbers.integers(0, shapes[f"{modules[-1]}.weight"][0], BATCH)
            one, single = train(None, {n: jnp.asarray(p) for n, p in params.items()}, modules, x, t)
            many, parted = train(plan, plan.put(params), modules, x, t)
            off = max(max(abs(p - q) for p, q in zip(one, many)),
                      max(float(abs(numpy.asarray(parted[n]) - numpy.asarray(single[n])).max()) for n in single))
            if not off < 1e-10:
                sys.exit(f"layout {i}: off by {off:.1e}")
    print(f"{a.layouts + 1} plans in JAX {jax.__version__} on {a.devices} devices: all as one device")


main()
