"""A plan of Cleave in JAX: a NamedSharding for every parameter, a constraint around every module; XLA does the rest.

    plan   = cleave.jax.plan(forward, params, (x,), devices=4, machine="machine.json", file="net.plan.json")   # or Plan("net.plan.json")
    params = plan.put(params)                               # where they lie between steps
    with plan.flax():                                       # within the jitted step; of NNX: plan.flax(model)
        logits = plan.logits(model.apply({"params": plan.used(params)}, x))
    plan.unmatched                                          # what of the plan found nothing to be said of, and why
"""
from .collectives import collectives
from .export import export, plan
from .plan import Plan

__all__ = ["Plan", "collectives", "export", "plan"]
