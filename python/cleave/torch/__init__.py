"""A plan of Cleave on your own torch.nn.Module, your training loop unchanged.

    import cleave.torch
    plan  = cleave.torch.plan(model, (x,), devices=4, machine="machine.json")    # or cleave.load("model.plan.json")
    model = cleave.torch.apply(model, plan)          # after init_process_group; every rank alike
    loss  = torch.nn.functional.cross_entropy(model(x), t)       # x and t: the whole batch, on every rank
    loss.backward(); optimizer.step()
"""
from ..command import CleaveError
from ..plan import load
from .apply import apply, mesh
from .export import export, plan
from .lie import whole
from .measure import Measurement, measure
from .steps import steps
from .traffic import Traffic

__all__ = ["CleaveError", "Measurement", "Traffic", "apply", "export", "load", "measure", "mesh", "plan", "steps", "whole"]
