"""Parameters that a module makes of others in each forward: torch.nn.utils.parametrizations, as weight_norm.

A plan knows the parameter that is made, under the name that the module reads it by, and cuts that; what it is made of is whole
on every rank, and so is the making.
"""
import contextlib

import torch
from torch.nn.utils import parametrize

from ..command import CleaveError


def _made(module):
    """Own names of what a module makes."""
    return list(module.parametrizations) if parametrize.is_parametrized(module) else []


def _values(module):
    """What a module makes, as it is now: nothing that counts steps or iterates does so."""
    was, lists = [], [module.parametrizations[name] for name in _made(module)]
    for inner in (x for each in lists for x in each.modules()):
        was.append((inner, inner.training))
        inner.training = False
    try:
        with torch.no_grad():
            return {name: each() for name, each in zip(_made(module), lists)}
    finally:
        for inner, training in was:
            inner.training = training


def check(plan, modules):
    """What is made before the forward of a module, by a hook, no plan has."""
    for name, module in modules.items():
        for hook in module._forward_pre_hooks.values():
            kind = type(hook)
            if kind.__module__ in ("torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm"):
                which = kind.__module__.rpartition(".")[2]
                raise CleaveError(f"{plan.file}: {name} has torch.nn.utils.{which}, by a hook, which no plan has: "
                                  f"torch.nn.utils.parametrizations.{which} is planned")


def note(modules):
    """Keeps the shapes of what modules make, before their parameters are spread."""
    for module in modules:
        if _made(module):
            module.__dict__["_cleave_made"] = {name: (x.shape, x.dtype) for name, x in _values(module).items()}


def shapes(model):
    """By name, of parameters that modules hold and of those that they make."""
    found = {name: p.shape for name, p in model.named_parameters(remove_duplicate=False)}
    for path, module in model.named_modules(remove_duplicate=False):
        for name, x in (_values(module) if _made(module) else {}).items():
            found[f"{path}.{name}" if path else name] = x.shape
    return found


def on_meta(module):
    """What a module makes, by own name, as tensors that have shapes alone."""
    return {name: torch.empty(shape, dtype=dtype, device="meta")
            for name, (shape, dtype) in module.__dict__.get("_cleave_made", {}).items()}


@contextlib.contextmanager
def as_plain(module):
    """Within this a module is of the class that it was before, which reads what it is given by name."""
    own = type(module)
    if _made(module):
        module.__class__ = parametrize.type_before_parametrizations(module)
    try:
        yield
    finally:
        module.__class__ = own


@contextlib.contextmanager
def as_held(model):
    """Within this modules hold what they make."""
    changed = [module for module in model.modules() if _made(module)]
    with contextlib.ExitStack() as stack:
        for module in changed:
            values = {name: torch.nn.Parameter(x) for name, x in _values(module).items()}
            stack.enter_context(as_plain(module))
            before = dict(module._parameters)
            lists = module._modules.pop("parametrizations")
            module._parameters.update(values)

            def restore(module=module, before=before, lists=lists):
                module._parameters.clear()
                module._parameters.update(before)
                module._modules["parametrizations"] = lists
            stack.callback(restore)
        yield
