"""A plan of layers "layers.0", "layers.1", ... as one of the same layers stacked along a first dimension, as a scan has them."""
import dataclasses
import re

from .command import CleaveError
from .plan import Stored


def _groups(entries, path):
    """[(name without the number, [entries by number])] of what lies in layers of this path, and the rest."""
    inside = re.compile(re.escape(path) + r"\.(\d+)(\..+)?")
    found, rest = {}, {}
    for name, entry in entries.items():
        layer = inside.fullmatch(name)
        if layer is None:
            rest[name] = entry
        else:
            found.setdefault(path + (layer.group(2) or ""), {})[int(layer.group(1))] = entry
    return found, rest


def _lie(part):
    return part.type, part.input, part.output, part.then, part.parameters, part.input_shape, part.output_shape


def behind(word):
    """Of an array of one more dimension before."""
    return f"S{int(word[1:]) + 1}" if word[0] == "S" else word


def stack(plan, path):
    """The plan with layers of this path stacked; and by name what differs between them: of such a parameter what is cut alike in
    all, of such a module nothing is left."""
    parameters, others = _groups(plan.parameters, path)
    modules, other_modules = _groups(plan.modules, path)
    n = max((len(by_number) for by_number in parameters.values()), default=0)
    if n == 0:
        raise CleaveError(f"{plan.file}: has no layers {path}.0, {path}.1, ...")
    differs = {}
    for name, by_number in (*parameters.items(), *modules.items()):
        if sorted(by_number) != list(range(n)):
            raise CleaveError(f"{plan.file}: {name} is not in each of the {n} layers {path}.0 to {path}.{n - 1}")
    for name, by_number in parameters.items():
        layers = list(by_number.values())
        if any(layer.shape != layers[0].shape for layer in layers):
            raise CleaveError(f"{plan.file}: {name} has not one shape in all layers of {path}")
        common = [words[0] if len(set(words)) == 1 else "R" for words in zip(*(layer.stored for layer in layers))]
        if any(layer.stored != common for layer in layers):
            differs[name] = "lies differently in layers that are stacked"
        others[name] = Stored([n, *layers[0].shape], list(map(behind, common)))
    for name, by_number in modules.items():
        layers = list(by_number.values())
        if all(_lie(layer) == _lie(layers[0]) for layer in layers):
            other_modules[name] = layers[0]
        else:
            differs[name] = "is cut differently in layers that are stacked"
    return dataclasses.replace(plan, parameters=others, modules=other_modules), differs
