"""Names of a plan as a model has them: a plan's are those of the files of a model, from which a framework may load it into
modules of other names, as transformers 5 does.  What it renames then it names again when it saves, and says so here."""
import dataclasses
import os
import sys

import torch


def unwrapped(model):
    """The model itself, of what torch.compile has made of it."""
    return model.__dict__.get("_modules", {}).get("_orig_mod", model)


def _renamed(model, parameters):
    """Name in files: name here, of parameters that are but renamed."""
    revert = getattr(sys.modules.get("transformers.core_model_loading"), "revert_weight_conversion", None)
    if revert is None or not hasattr(model, "config"):
        return {}
    tensors = {name: torch.empty_like(p, device="meta") for name, p in parameters.items()}
    names = {id(x): name for name, x in tensors.items()}
    return {name: names[id(x)] for name, x in revert(model, tensors).items() if id(x) in names}


def _modules(renamed):
    """The same of modules: what has a parameter that is called alike in it, or else what has all of its parameters."""
    alike, within = {}, {}
    for name, here in renamed.items():
        path, at, same = name.split("."), here.split("."), True
        while len(path) > 1:
            same = same and len(at) > 1 and path[-1] == at[-1]
            path, at = path[:-1], at[:-1] if same else at
            if same:
                alike.setdefault(".".join(path), ".".join(at))
            within.setdefault(".".join(path), []).append(here.split(".")[:-1])
    return {name: ".".join(os.path.commonprefix(paths)) for name, paths in within.items()} | alike


def _find(model, names):
    """How the model's own names differ from those of files, where it has not all of these as they are."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    return {} if all(name in parameters for name in names) else _renamed(model, parameters)


def has(model, names):
    """Are these all parameters of the model?"""
    renamed, parameters = _find(model, names), dict(model.named_parameters(remove_duplicate=False))
    return all(renamed.get(name, name) in parameters for name in names)


def as_here(plan, model):
    """The plan in names of this model; as it is where the model has all of them."""
    renamed = _find(model, plan.parameters)
    if not renamed:
        return plan
    modules = _modules(renamed)

    def of(names, known):
        return [known.get(name, name) for name in names]

    def keyed(values, known):
        return dict(zip(of(values, known), values.values()))

    stages = [dataclasses.replace(stage, begins=modules.get(stage.begins, stage.begins), parameters=of(stage.parameters, renamed))
              for stage in plan.schedule.stages]
    return dataclasses.replace(
        plan, modules=keyed(plan.modules, modules), functions=keyed(plan.functions, modules),
        parameters=keyed(plan.parameters, renamed), recompute=of(plan.recompute, modules),
        schedule=dataclasses.replace(plan.schedule, stages=stages))
