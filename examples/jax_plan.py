"""A perceptron in JAX under a plan of Cleave (of configs/models/mlp.onnx), the training step as ever.
usage: jax_plan.py PLAN.json      with as many devices as the plan is for
"""
import sys

import jax
import jax.numpy as jnp
import numpy

import cleave.jax

plan = cleave.jax.Plan(sys.argv[1])
LAYERS = list(plan.plan.modules)  # "0", "2", ... as the model calls them

rng = numpy.random.default_rng(0)
params = {name: rng.standard_normal(entry.shape, dtype=numpy.float32) / numpy.sqrt(entry.shape[-1])
          for name, entry in plan.plan.parameters.items()}
batch = plan.plan.model["batch"]
x = rng.standard_normal((batch, params[f"{LAYERS[0]}.weight"].shape[1]), dtype=numpy.float32)
t = rng.integers(0, params[f"{LAYERS[-1]}.weight"].shape[0], batch)


def forward(params, x):
    for name in LAYERS:
        w, b = (plan.weight(name, own, params[f"{name}.{own}"]) for own in ("weight", "bias"))
        x = plan.after(name, plan.before(name, x) @ w.T + b)
        x = x if name == LAYERS[-1] else jax.nn.relu(x)
    return plan.logits(x)


def loss_of(params, x, t):
    return -jnp.take_along_axis(jax.nn.log_softmax(forward(params, x)), t[:, None], 1).mean()


@jax.jit
def step(params, x, t):
    loss, gradients = jax.value_and_grad(loss_of)(params, x, t)
    return loss, {name: p - 0.05 * gradients[name] for name, p in params.items()}


params = plan.put(params)
for i in range(5):
    loss, params = step(params, x, t)
    params = plan.put(params)  # where they lie between steps
    print(f"step {i}: loss {loss:.4f}")
print({name: str(p.sharding.spec) for name, p in params.items() if name.endswith("weight")})
