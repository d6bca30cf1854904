"""The plan that `cleave export` writes (docs/formats.md), checked as it is read; of no framework."""
import json
import math
import re
from dataclasses import dataclass, field

from .command import CleaveError

WORD = re.compile(r"R|P|S[0-9]|S[0-9]/[2-9]|@[0-9]{1,5}")


@dataclass
class Part:
    """A module, a function of one, or the loss: by dimension of the mesh how its tensors lie."""
    operator: str
    type: str
    axes: list  # the axis of the operator that is cut, or None where the mesh repeats it
    input: list  # words: "S1" cut along dimension 1 ("S1/2": each of two runs of it is), "R" whole everywhere, "P" parts that add up, "@1" the second's alone
    output: list = field(default_factory=list)
    then: list = field(default_factory=list)  # where the output goes
    parameters: dict = field(default_factory=dict)  # own name: words
    rank: int = None  # dimensions of its output
    input_shape: list = None  # of the whole batch
    output_shape: list = None

    def gradient(self, words):
        """How the gradient of what lies so comes: whole where the mesh repeats the work, else in parts that add up."""
        return ["P" if w == "R" and axis is not None else w for w, axis in zip(words, self.axes)]


@dataclass
class Stored:
    shape: list
    stored: list  # words


@dataclass
class Stage:
    begins: str  # the module with which it begins; "" of the first
    given: list  # words: how what that module is given comes from the stage before
    parameters: list  # names of those that it reads


@dataclass
class Schedule:
    kind: str
    micro_batches: int
    groups: int  # of devices, each a mesh: stage s is on group s mod groups
    stages: list  # of Stage; none: all devices do all


KINDS = ("1f1b", "gpipe", "interleaved", "zb-h1")
PLAIN = Schedule("1f1b", 1, 1, [])


@dataclass
class Plan:
    file: str
    target: str
    model: dict
    mesh: list
    modules: dict  # name: Part
    functions: dict  # name of the module that calls it: Part
    loss: object  # Part or None
    parameters: dict  # name: Stored
    lost: list
    schedule: Schedule
    recompute: list  # modules that run again before their backward

    @property
    def devices(self):
        return math.prod(self.mesh) * self.schedule.groups


def _take(record, where, kind, **optional):
    """A dataclass of a JSON object that has all its keys, those of `optional` if it likes, and no others."""
    if not isinstance(record, dict):
        raise CleaveError(f"{where}: is no object")
    names = set(kind.__dataclass_fields__)
    unknown, missing = set(record) - names, names - set(record) - set(optional)
    if unknown or missing:
        raise CleaveError(f"{where}: {'unknown key' if unknown else 'there is no'} \"{min(unknown or missing)}\"")
    return kind(**{**optional, **record})


def _check_words(words, mesh, where, allowed):
    ok = isinstance(words, list) and len(words) == len(mesh)
    if not ok or not all(isinstance(w, str) and WORD.fullmatch(w) and w[0] in allowed for w in words):
        raise CleaveError(f"{where}: {json.dumps(words)} is not a word for each of {len(mesh)} dimensions of the mesh")
    for word, size in zip(words, mesh):
        _expect(word[0] != "@" or int(word[1:]) < size, where, f"{word} is none of {size}")


def _alone(words):
    return [w if w[0] == "@" else None for w in words]


def _expect(ok, where, what):
    if not ok:
        raise CleaveError(f"{where}: {what}")


def _is_list(value, kind):
    return isinstance(value, list) and all(isinstance(item, kind) and not isinstance(item, bool) for item in value)


def _part(record, mesh, where):
    part = _take(record, where, Part, output=[], then=[], parameters={}, rank=None, input_shape=None, output_shape=None)
    _expect(isinstance(part.operator, str) and isinstance(part.type, str), where, "operator and type are no texts")
    _expect(_is_list(part.axes, (str, type(None))) and len(part.axes) == len(mesh), where + ".axes",
            "is not one for each dimension of the mesh")
    _expect(isinstance(part.parameters, dict), where + ".parameters", "is no object")
    _expect(part.rank is None or (_is_list([part.rank], int) and part.rank > 0), where + ".rank", "is no number above 0")
    for name in ("input_shape", "output_shape"):
        shape = getattr(part, name)
        _expect(shape is None or (_is_list(shape, int) and all(n > 0 for n in shape)), f"{where}.{name}", "is no shape")
    _check_words(part.input, mesh, where + ".input", "RS@")
    for words, name, allowed in ((part.output, "output", "RSP@"), (part.then, "then", "RS@")):
        if part.output != [] or part.then != []:
            _check_words(words, mesh, f"{where}.{name}", allowed)
    for name, words in part.parameters.items():
        _check_words(words, mesh, f"{where}.parameters.{name}", "RS@")
    for words in (part.output, *part.parameters.values()):
        _expect(words == [] or _alone(words) == _alone(part.input), where, "is done on other devices than its input is on")
    return part


def _stored(record, mesh, where):
    stored = _take(record, where, Stored)
    _expect(_is_list(stored.shape, int), where + ".shape", f"{json.dumps(stored.shape)} is no shape")
    _check_words(stored.stored, mesh, where + ".stored", "RS@")
    for word in stored.stored:
        _expect("/" not in word and (word[0] != "S" or int(word[1:]) < len(stored.shape)), where + ".stored", f"{word} is no dimension of it")
    return stored


def _schedule(record, mesh, where):
    schedule = _take(record, where, Schedule)
    _expect(schedule.kind in KINDS, where + ".kind", f"{json.dumps(schedule.kind)} is none of {', '.join(KINDS)}")
    for name in ("micro_batches", "groups"):
        n = getattr(schedule, name)
        _expect(_is_list([n], int) and n > 0, f"{where}.{name}", f"{json.dumps(n)} is no number above 0")
    _expect(_is_list(schedule.stages, dict), where + ".stages", "is no list of objects")
    stages = [_take(stage, f"{where}.stages[{i}]", Stage) for i, stage in enumerate(schedule.stages)]
    for i, stage in enumerate(stages):
        _expect(isinstance(stage.begins, str) and bool(stage.begins) == (i > 0), f"{where}.stages[{i}].begins",
                "is no module" if i else "is not \"\"")
        _check_words(stage.given, mesh, f"{where}.stages[{i}].given", "RS")
        _expect(_is_list(stage.parameters, str), f"{where}.stages[{i}].parameters", "is no list of names")
    _expect((len(stages) or 1) % schedule.groups == 0 and len(stages) != 1, where + ".stages",
            f"are {len(stages)}, on {schedule.groups} groups")
    _expect((schedule.kind == "interleaved") == (len(stages) > schedule.groups), where + ".kind",
            f"{schedule.kind} has {len(stages)} stages on {schedule.groups} groups")
    schedule.stages = stages
    return schedule


def load(file):
    """Reads a plan, and believes nothing; CleaveError names file and place."""
    if isinstance(file, Plan):
        return file
    try:
        with open(file, encoding="utf-8") as stream:
            data = json.load(stream)
    except OSError as error:
        raise CleaveError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise CleaveError(f"{file}: {error}") from None
    if not isinstance(data, dict) or data.get("cleave_plan") != 1:
        raise CleaveError(f"{file}: is no plan of version 1; `cleave export` writes them")
    target = data.pop("for", None)
    data = {key: value for key, value in data.items() if key != "cleave_plan"}
    data.update(file=str(file), target=target)
    plan = _take(data, str(file), Plan, schedule=None, recompute=[])
    mesh = plan.mesh
    _expect(_is_list(mesh, int) and all(size > 1 for size in mesh), f"{file}: mesh",
            f"{json.dumps(mesh)} is no list of sizes above 1")
    _expect(isinstance(plan.model, dict), f"{file}: model", "is no object")
    _expect(_is_list(plan.lost, dict), f"{file}: lost", "is no list of objects")
    for key, make in (("modules", _part), ("functions", _part), ("parameters", _stored)):
        _expect(isinstance(getattr(plan, key), dict), f"{file}: {key}", "is no object")
        setattr(plan, key, {n: make(v, mesh, f"{file}: {key}.{n}") for n, v in getattr(plan, key).items()})
    plan.schedule = PLAIN if plan.schedule is None else _schedule(plan.schedule, mesh, f"{file}: schedule")
    _expect(_is_list(plan.recompute, str), f"{file}: recompute", "is no list of modules")
    _expect(target == "torch" or (plan.schedule == PLAIN and not plan.recompute), str(file),
            f"has {'modules that are computed again' if plan.recompute else 'stages or micro-batches'}, which in JAX are your step's")
    plan.loss = None if plan.loss is None else _part(plan.loss, mesh, f"{file}: loss")
    for name, part in (*plan.modules.items(), *plan.functions.items(), *([("loss", plan.loss)] if plan.loss else [])):
        _expect((target == "torch" and not plan.schedule.stages) or not any(_alone(part.input + part.then)), f"{file}: {name}",
                "is on some devices alone, which PyTorch can without stages")
        _expect(target == "torch" or not any("/" in w for words in part.parameters.values() for w in words), f"{file}: {name}",
                "has a parameter of several runs that are cut, which PyTorch can")
    return plan
