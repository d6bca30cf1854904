#!/usr/bin/env python3
"""The reader of plans believes nothing: what `cleave export` writes is read; with any part of it changed it is read or
refused by one line, and never by another error.
usage: plan_reader.py CLEAVE TREE
"""
import copy
import json
import os
import random
import sys
import tempfile

cleave_command, tree = sys.argv[1:]
os.environ["CLEAVE"] = cleave_command
sys.path[:0] = [os.path.join(tree, "python")]
import cleave  # noqa: E402

CHANGES, VALUES = 3000, [None, True, -1, 1e300, 2, "", "S0", "S99", "P", "@0", "@2", [], ["@1"], ["R"], [2, 2], {}, {"a": []}, [[]]]


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from places(item, (*path, i))


def change(plan, rng):
    plan = copy.deepcopy(plan)
    path = rng.choice([p for p in places(plan) if p])
    at = plan
    for key in path[:-1]:
        at = at[key]
    if rng.random() < 0.3:
        del at[path[-1]]
    elif isinstance(at, dict) and rng.random() < 0.2:
        at["unheard of"] = at.pop(path[-1])
    else:
        at[path[-1]] = copy.deepcopy(rng.choice(VALUES))
    return plan


def refuse(file, plan, *keys, value, because):
    """With this in one place it is refused, and the line says why."""
    plan = copy.deepcopy(plan)
    at = plan
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(plan, stream)
    try:
        cleave.load(file)
    except cleave.CleaveError as error:
        assert because in str(error), error
        return
    raise AssertionError(f"{keys} may be {value}")


def check_jax(folder):
    """What PyTorch alone can is refused where a plan is for JAX, and modules have the shapes that they see."""
    file = os.path.join(folder, "jax.plan.json")
    given = ["--model", os.path.join(tree, "configs", "models", "alexnet.onnx"), "--batch", 32]
    shipped = os.path.join(tree, "configs", "layouts", "alexnet-32-two-cores.layout.json")
    cleave.run("export", "--to", "jax", *given, "--layout", shipped, "-o", file)
    plan = cleave.load(file)
    assert plan.modules["classifier.6"].input_shape == [32, 4096] and plan.modules["classifier.6"].output_shape == [32, 1000]
    assert plan.modules["features.3"].input_shape[:2] == [32, 64], plan.modules["features.3"]
    with open(file, encoding="utf-8") as stream:
        good = json.load(stream)
    schedule = {"kind": "1f1b", "micro_batches": 4, "groups": 1, "stages": []}
    refuse(file, good, "schedule", value=schedule, because="micro-batches, which in JAX are your step's")
    refuse(file, good, "recompute", value=["features.0"], because="computed again, which in JAX are your step's")
    refuse(file, good, "modules", "features.3", "parameters", "weight", value=["S0/2"], because="several runs")
    refuse(file, good, "modules", "features.3", "input_shape", value=[32, 0], because="input_shape: is no shape")


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_jax(folder)
        file = os.path.join(folder, "plan.json")
        cleave.run("export", "--to", "torch", "--model", os.path.join(tree, "configs", "models", "alexnet.onnx"), "--batch", 32,
                   "--layout", os.path.join(tree, "configs", "layouts", "alexnet-32-two-cores.layout.json"), "-o", file)
        plan = cleave.load(file)
        assert plan.mesh == [2] and plan.modules["classifier.6"].output == ["P"] and plan.devices == 2
        assert plan.modules["classifier.6"].gradient(["R"]) == ["P"]
        with open(file, encoding="utf-8") as stream:
            good = json.load(stream)
        rng, n_read = random.Random(0), 0
        for _ in range(CHANGES):
            with open(file, "w", encoding="utf-8") as stream:
                json.dump(change(good, rng), stream)
            try:
                cleave.load(file)
                n_read += 1
            except cleave.CleaveError as error:
                assert "\n" not in str(error) and str(error).startswith(file), error
        assert 0 < n_read < CHANGES // 2, n_read
    print(f"{CHANGES} changed plans: {n_read} read, the others refused by a line")


main()
