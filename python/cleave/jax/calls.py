"""Constraints around the modules of Flax that a plan names, while they are called."""
import contextlib

import numpy


def _is_array(x):
    return hasattr(x, "shape") and hasattr(x, "dtype") and numpy.ndim(x) > 0


def _call(plan, name, call, args, kwargs):
    """A module's own call: what it is given first and gives lie as planned."""
    if name not in plan.plan.modules:
        return call(*args, **kwargs)
    plan.unmatched.pop(name, None)
    if args and _is_array(args[0]):
        args = (plan.before(name, args[0], flax=True), *args[1:])
    y = call(*args, **kwargs)
    return plan.after(name, y, flax=True) if _is_array(y) else y


def _name(path, method):
    """A method that does another operator than the module's own call is a module to a plan: "Embed_0:attend"."""
    return ".".join(map(str, path)) + ("" if method == "__call__" else f":{method}")


def linen_calls(plan):
    import flax.linen as nn

    def constrain(call, args, kwargs, context):
        return _call(plan, _name(context.module.path, context.method_name), call, args, kwargs)

    return nn.intercept_methods(constrain)


@contextlib.contextmanager
def nnx_calls(plan, model):
    """NNX has no way to look at calls, so for as long the classes of these modules have other methods."""
    from flax import nnx

    paths = {id(module): path for path, module in nnx.iter_modules(model)}
    methods = {"__call__", *(name.partition(":")[2] for name in plan.plan.modules if ":" in name)}
    classes = {type(module) for _, module in nnx.iter_modules(model)}
    was = [(kind, method, getattr(kind, method), method in vars(kind))
           for kind in classes for method in methods if hasattr(kind, method)]

    def around(method, original):
        def called(self, *args, **kwargs):
            if id(self) not in paths:
                return original(self, *args, **kwargs)
            return _call(plan, _name(paths[id(self)], method), lambda *a, **k: original(self, *a, **k), args, kwargs)

        return called

    try:
        for kind, method, original, _ in was:
            setattr(kind, method, around(method, original))
        yield
    finally:
        for kind, method, original, own in was:
            setattr(kind, method, original) if own else delattr(kind, method)
