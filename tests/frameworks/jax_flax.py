#!/usr/bin/env python3
"""Models of Flax (flax_models.py) under plans in their own names: on forced host devices, each trains as one device does.

usage: jax_flax.py CLEAVE TREE [--devices 4] [--layouts N] [--models NAME,...|all] [--seed S] [--verbose]

Of every model the plan that `cleave search --for jax` finds of what jax2onnx makes of it, and those of N layouts drawn at
random, and the found one in two micro-batches; three steps of adamw in double, its states where the plan has them: losses, gradients of the first step and parameters
are those of one device to 1e-10.  Says what of a plan was not kept to.  Exits 77 where there is no JAX, Flax, optax or jax2onnx.
"""
import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile

FLAGS = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"  # what is compiled runs three times
parser = argparse.ArgumentParser()
parser.add_argument("cleave")
parser.add_argument("tree")
parser.add_argument("--devices", type=int, default=4)
parser.add_argument("--layouts", type=int, default=2)
parser.add_argument("--models", default="perceptron,residual,nnx_gpt,twice,hf_llama")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--verbose", action="store_true")
a = parser.parse_args()
os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_force_host_platform_device_count={a.devices} " + FLAGS, CLEAVE=os.path.abspath(a.cleave))
try:
    import flax
    import flax.linen as nn
    import jax
    import jax2onnx  # noqa: F401
    import jax.numpy as jnp
    import numpy
    import optax
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
sys.path[:0] = [os.path.join(a.tree, "python")]
import cleave  # noqa: E402
import cleave.jax  # noqa: E402
from cleave.jax.names import named_leaves  # noqa: E402
from drawn import MACHINE, draw_even  # noqa: E402
from flax_features import FEATURES  # noqa: E402
from flax_models import LOGICAL, MODELS  # noqa: E402

jax.config.update("jax_enable_x64", True)
ALL = {**MODELS, **FEATURES}
TOLERANCE = 1e-10
OPTIMIZER = optax.adamw(1e-2, eps=1e-3)  # of gradients that are but rounded, a smaller one would make steps


def in_double(tree):
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree)


def in_turn(loss_of, params, rest, x, t, n):
    """Loss and gradients of n micro-batches that come one after the other, and what modules changed."""
    def add(sums, batch):
        (loss, rest), gradients = jax.value_and_grad(loss_of, has_aux=True)(params, sums[2], *batch)
        return (*jax.tree.map(lambda a, b: a + b / n, sums[:2], (loss, gradients)), rest), None

    zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params), rest)
    return jax.lax.scan(add, zero, tuple(z.reshape(n, -1, *z.shape[1:]) for z in (x, t)))[0]


def make_step(model, plan, micro_batches=1):
    forward = model.forward(plan)

    def loss_of(params, rest, x, t):
        y, rest = forward(plan.used(params) if plan else params, rest, x)
        y = jax.nn.log_softmax(plan.logits(y) if plan else y)
        return -jnp.mean(jnp.take_along_axis(y, t[..., None], -1)), rest

    def step(params, rest, state, x, t):
        loss, gradients, rest = in_turn(loss_of, params, rest, jnp.asarray(x), jnp.asarray(t), micro_batches)
        change, state = (model.optimizer or OPTIMIZER).update(gradients, state, params)
        return loss, gradients, optax.apply_updates(params, change), rest, state

    return step


def run_steps(step, params, rest, state, x, t):
    losses, first = [], None
    for _ in range(3):
        loss, gradients, params, rest, state = step(params, rest, state, x, t)
        losses.append(float(loss))
        first = first or gradients
    return losses, first, params, (rest, state)


def apart(a, b):
    return max(float(abs(x - y).max() / max(abs(y).max(), 1e-2)) for x, y in
               zip(map(numpy.asarray, jax.tree.leaves(a)), map(numpy.asarray, jax.tree.leaves(b))))


def lie_beside(params, state):
    """Is all that an optimizer keeps of a parameter where that is?"""
    where = {f".{name}": x.sharding for name, x in named_leaves(params)[0]}
    for path, x in named_leaves(state)[0]:
        of = max((name for name in where if f".{path}".endswith(name)), key=len, default=None)
        if of is not None and x.sharding != where[of]:
            return False
    return True


class Case:
    def __init__(self, name, folder, train=True):
        self.name, self.model, self.folder = name, ALL[name](), folder
        self.x, self.params, self.rest = self.model.x, in_double(self.model.params), in_double(self.model.rest)
        self.optimizer = self.model.optimizer or OPTIMIZER
        shape = self.x.shape if self.x.dtype == numpy.int32 else self.x.shape[:1]
        self.t = numpy.random.default_rng(1).integers(0, self.model.classes, shape)
        with open(self.path("machine"), "w", encoding="utf-8") as stream:
            json.dump(MACHINE, stream)
        file = self.path("onnx")
        names = cleave.jax.export(*self.model.planned, (self.x,), file)
        self.given = ["--model", file, "--batch", self.x.shape[0], "--inputs", names[0]]
        self.operators = cleave.run("show", *self.given[1:])["operators"]
        if train:
            self.one = run_steps(jax.jit(make_step(self.model, None)), self.params, self.rest, self.optimizer.init(self.params), self.x, self.t)

    def path(self, what):
        return os.path.join(self.folder, f"{self.name}.{what}")

    def labels(self):
        cleave.run("search", *self.given, "--machine", self.path("machine"), "--devices", a.devices, "--for", "jax", "--threads", 1,
                   "-o", self.path("found"))
        yield "found"
        with open(self.path("found"), encoding="utf-8") as stream:
            layout = {key: value for key, value in json.load(stream).items() if key != "schedule"}
        for i in range(a.layouts):
            rng = random.Random(f"{self.name} {a.devices} {a.seed} {i}")
            draw_even(rng, layout, self.operators, a.devices, [name for name, _ in named_leaves(self.model.planned[1])[0]])
            with open(self.path(f"drawn {i}"), "w", encoding="utf-8") as stream:
                json.dump(layout, stream)
            yield f"drawn {i}"

    def empty(self):
        """A layout of this model, but for its operators."""
        cleave.run("search", *self.given, "--machine", self.path("machine"), "--devices", a.devices, "--for", "jax", "--threads", 1,
                   "--time", 1, "-o", self.path("any"))
        with open(self.path("any"), encoding="utf-8") as stream:
            return {key: value for key, value in json.load(stream).items() if key not in ("schedule", "parameters")}

    def export(self, label, **named):
        cleave.run("export", "--to", "jax", *self.given, "--layout", self.path(label), "--read-back", self.path("back"),
                   "-o", self.path("plan"))
        return cleave.jax.Plan(self.path("plan"), stacked=self.model.stacked, **named)

    def sent(self, step):
        """Bytes that XLA sends in a step, in f32, and those that the program of the same layout does."""
        counted = cleave.jax.collectives(step.as_text(), a.devices, lambda kind: 1 if kind == "pred" else 4)
        said = cleave.run("simulate", *self.given, "--machine", self.path("machine"), "--layout", self.path("back"), "--closed-form")
        return sum(n_bytes for _, _, n_bytes in counted), said["bytes_sent"]

    def check(self, label, micro_batches=1):
        plan = self.export(label)
        params = plan.put(self.params)
        kept = plan.shardings(params)
        state = self.optimizer.init(self.params)
        states = plan.shardings(state, params)
        whole = jax.NamedSharding(plan.mesh, jax.sharding.PartitionSpec())
        given = params, jax.device_put(self.rest, whole), jax.device_put(state, states), self.x, self.t
        step = jax.jit(make_step(self.model, plan, micro_batches), out_shardings=(None, kept, kept, whole, states)).lower(*given).compile()
        losses, first, after, state = run_steps(step, *given)
        off = {"loss": max(abs(p - q) for p, q in zip(self.one[0], losses)), "gradient": apart(first, self.one[1]),
               "parameter": apart(after, self.one[2]), "state": apart(state, self.one[3])}
        label += f" in {micro_batches} micro-batches" if micro_batches > 1 else ""
        wrong = [f"{what} is off by {n:.1e}" for what, n in off.items() if not n < (self.model.tolerance or TOLERANCE)]
        missing = {name for name, _ in named_leaves(self.params)[0] if name not in plan.plan.parameters} ^ self.model.unnamed
        if missing:
            wrong.append(f"of {sorted(missing)} it is not so whether the plan names them")
        n_cut = sum(not x.sharding.is_fully_replicated for x in jax.tree.leaves(after))
        if not lie_beside(after, state[1]):
            wrong.append("states are not where their parameters are")
        if wrong or a.verbose:
            print(f"{self.name} {label} on {a.devices}, mesh {plan.plan.mesh}: {'; '.join(wrong) or 'as one device'}; {n_cut} of "
                  f"{len(jax.tree.leaves(after))} parameters are cut; not kept to: {plan.unmatched or 'nothing'}", flush=True)
        elsewhere = read_back(plan, self.params, plan.rules(logical_axes(self.params)))
        if elsewhere:
            print(f"{self.name} {label}: by the rules of its logical axes {elsewhere}, which is not said")
        return not wrong and not elsewhere, off, None if micro_batches > 1 else self.sent(step)


def logical_axes(params):
    """Of a tree of parameters, as with logical partitioning in linen."""
    leaves, structure = named_leaves(params)
    logical = [next((axes for end, axes in LOGICAL.items() if name.endswith(end)), ("embed",))[:x.ndim] for name, x in leaves]
    return jax.tree.unflatten(structure, [jax.sharding.PartitionSpec(*axes) for axes in logical])


def read_back(plan, params, rules):
    """The parameters that do not lie as planned by the rules, nor are said to."""
    back = nn.logical_to_mesh_sharding(logical_axes(params), plan.mesh, rules)
    return {name: here.spec for (name, x), here in zip(named_leaves(params)[0], jax.tree.leaves(back))
            if name in plan.plan.parameters and not here.is_equivalent_to(plan.stored(name, x.ndim), x.ndim)
            and "by the rules" not in plan.unmatched.get(name, "")}


def by_heads(name, operator):
    """What of an operator Megatron-LM cuts, or None."""
    kind = name.split("/")[1].rsplit(".", 1)[-1] if name.startswith("/") else operator["type"]
    return {"query": "k", "key": "k", "value": "k", "gate": "k", "up": "k", "head": "k", "out": "h", "down": "c", "Attention": "h",
            "@loss": "v"}.get("@loss" if name == "@loss" else kind)


def check_rules():
    """Samples over the first of two dimensions of the mesh, heads (keys have two), hidden units and vocabulary over the second: the rules of
    logical axes are what that says by hand, and give back how every parameter lies."""
    with tempfile.TemporaryDirectory() as folder:
        case = Case("llama", folder, train=False)
        sizes, layout = [a.devices // 2, 2], case.empty()
        for name, operator in case.operators.items():
            axes, cut = operator["axes"], by_heads(name, operator)
            rows = next(axis for axis in ("n", "b0", "b", "a") if axis in axes) if axes else None
            order = [(axis, size) for axis, size in zip((rows, cut), sizes) if axis in axes]
            repeated = a.devices // math.prod(size for _, size in order)
            devices = [at for r in range(repeated) for at in range(r, a.devices, repeated)] if len(order) < 2 else list(range(a.devices))
            if len(order) == 2 and list(axes).index(cut) < list(axes).index(rows):
                devices = [i * sizes[1] + j for j in range(sizes[1]) for i in range(sizes[0])]
            layout["operators"][name] = {"split": dict(order), "replicas": repeated, "devices": devices}
        with open(case.path("hand"), "w", encoding="utf-8") as stream:
            json.dump(layout, stream)
        plan = case.export("hand", axes=("data", "model"))
        rules = plan.rules(logical_axes(case.params))
        cut = dict(rules)
        expected = {"heads": ("model",), "kv_heads": ("model",), "width": None, "mlp": ("model",), "embed": None}
        wrong = {axis: cut.get(axis) for axis, to in expected.items() if cut.get(axis) != to}
        wrong.update(read_back(plan, case.params, rules))
        print(f"rules of logical axes: {rules}; not by them: {[n for n, why in plan.unmatched.items() if 'by the rules' in why]}")
        return wrong


def main():
    failed = n = 0
    for name in ALL if a.models == "all" else a.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            case = Case(name, folder)
            rows = [case.check(label) for label in case.labels()]
            if not case.model.of_batch:
                rows.append(case.check("found", micro_batches=2))
        failed, n = failed + sum(not ok for ok, _, _ in rows), n + len(rows)
        ratios = sorted(xla / program for _, _, sent in rows if sent is not None for xla, program in [sent] if program)
        if name == "llama" and (wrong := check_rules()):
            sys.exit(f"rules of logical axes are wrong: {wrong}")
        print(f"{name} on {a.devices} devices: {len(rows)} plans, off by at most "
              + ", ".join(f"{max(off[what] for _, off, _ in rows):.1e} ({what})" for what in rows[0][1])
              + (f"; XLA sends {ratios[0]:.2f} to {ratios[-1]:.2f} times what the program does, {statistics.median(ratios):.2f} in the median"
                 if ratios else ""), flush=True)
    if failed:
        sys.exit(f"{failed} of {n} plans are wrong")
    print(f"{n} plans of Flax {flax.__version__} on {a.devices} devices: all as one device")


main()
