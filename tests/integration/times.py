#!/usr/bin/env python3
"""Times of a framework make the price of whole operators, without any framework: lists are stable, a step is the sum of
what its operators were timed to take, what was not timed is interpolated, and files that are wrong are refused.
usage: times.py CLEAVE TREE
"""
import copy
import json
import os
import subprocess
import sys
import tempfile

cleave, tree = sys.argv[1:]
failed = []
MODELS = (("lenet5", 64), ("byte_gpt", 8), ("dlrm", 32))
BY = {"framework": "torch 9.9", "device": "cpu: made up", "precision": "f32", "threads": 1, "compiled": False,
      "memory_bytes": 1 << 33}
FORWARD, BACKWARD = 3e-3, 5e-3


def run(*arguments, code=0):
    done = subprocess.run([cleave, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect(done.returncode == code, f"{arguments[:3]} ends with {done.returncode}: {done.stderr.strip()}")
    return done.stdout if code == 0 else done.stderr


def expect(truth, claim):
    if not truth:
        failed.append(claim)
        print(f"not so: {claim}")


def near(a, b, share=1e-6):
    return abs(a - b) <= share * abs(b)


def timed(entries, seconds):
    return [{**{k: e[k] for k in ("key", "family", "flops", "bytes")}, "seconds": seconds(e), "spread": 0.0}
            for e in entries]


def times_of(listed):
    kernels = timed(listed["operators"], lambda e: BACKWARD if e["backward"] else FORWARD)
    kernels += timed(listed["copies"], lambda e: 1e-12)
    return {"cleave_times": 1, "measured_by": BY, "kernels": kernels, "collectives": [], "failed": []}


def write(path, document):
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(document if isinstance(document, str) else json.dumps(document))
    return path


def step(given, machine, *how):
    return json.loads(run("simulate", *given, "--machine", machine, *how, "--json"))["step_seconds"]


def check_model(folder, name, batch):
    given = ["--model", f"{tree}/configs/models/{name}.onnx", "--batch", batch]
    lists = []
    for i in range(2):
        path = f"{folder}/{name}.{i}.kernels.json"
        said = json.loads(run("calibrate", "--list-kernels", path, *given, "--devices", 2, "--json"))
        with open(path, encoding="utf-8") as stream:
            lists.append(stream.read())
    expect(lists[0] == lists[1], f"the list of {name} is the same twice")
    listed = json.loads(lists[0])
    expect(said["kernels"] == path and said["passes"] == len(listed["operators"]), f"--json of the list says {said}")
    keys = [e["key"] for e in listed["operators"]]
    expect(len(set(keys)) == len(keys), f"keys of {name} are unique")
    times = times_of(listed)
    machine = f"{folder}/{name}.machine.json"
    said = json.loads(run("calibrate", "--import", write(f"{folder}/{name}.times.json", times), "-o", machine, "--json"))
    expect(said["machine"] == machine and said["times_taken"] == len(times["kernels"]) and said["times_failed"] == 0,
           f"--json of what is taken says {said}")
    # Every operator takes 3 ms and 5 ms, whatever its nests are; copies and updates take next to nothing.
    n = len(json.loads(run("show", *given[1:], "--json"))["operators"])
    expect(near(step(given, machine, "--method", "single"), n * (FORWARD + BACKWARD)),
           f"a step of {name} is what its {n} operators were timed to take")
    check_backward(given, machine, f"{folder}/{name}.trace.json")
    # Equal times of a family fit as a launch alone, so a shape that was not timed takes as long.
    some = {e["key"] for e in listed["operators"] if not e["wanted"]}
    fewer = {**times, "kernels": [k for k in times["kernels"] if k["key"] not in some]}
    run("calibrate", "--import", write(f"{folder}/fewer.json", fewer), "-o", f"{folder}/fewer.machine.json")
    for how in (("--method", "single"), ("--method", "random", "--seed", 3)):
        expect(near(step(given, f"{folder}/fewer.machine.json", *how), step(given, machine, *how), 1e-3),
               f"what was not timed of {name} is interpolated {how}")
    return times, machine


def check_backward(given, machine, file):
    """One call gives both gradients: what goes on with either waits for all of it."""
    run("simulate", *given, "--machine", machine, "--method", "single", "--trace", file)
    with open(file, encoding="utf-8") as stream:
        took = {e["name"]: e["dur"] for e in json.load(stream)["traceEvents"] if e.get("ph") == "X"}
    both = [name for name in took if name.endswith(" weight-gradient") and
            took.get(name.replace("weight", "input"), 0) > 0]
    expect(both and all(took[name] == 0 and near(took[name.replace("weight", "input")], BACKWARD * 1e6) for name in both),
           f"the gradients of {given[1]} are one call: {[(n, took[n], took[n.replace('weight', 'input')]) for n in both]}")


def check_files(folder, times, machine):
    with open(machine, encoding="utf-8") as stream:
        kind = next(iter(json.load(stream)["kinds"].values()))
    expect(kind["kernel_version"] == "torch 9.9, cpu: made up, 1 thread", "the file says by what it was measured")
    n, some = len(kind["kernels"]), {**times, "kernels": times["kernels"][:5]}
    for threads, kept in ((1, n), (2, 5)):
        other = {**some, "measured_by": {**BY, "threads": threads}}
        run("calibrate", "--import", write(f"{folder}/some.json", other), "-o", machine)
        with open(machine, encoding="utf-8") as stream:
            have = len(next(iter(json.load(stream)["kinds"].values()))["kernels"])
        expect(have == kept, f"kernels that the same measured are kept, and no others: {have} for {kept}")
    # 1 ms and 1 GB/s: an all-reduce of two sends as much as its vector has.  A tenth is the processor's.
    pairs = [{"kind": "all-reduce", "devices": 2, "bytes": b, "seconds": 1e-3 + b / 1e9, "beside": 1e-4 + b / 1e10,
              "spread": 0} for b in (1 << 12, 1 << 16, 1 << 20, 1 << 24)]
    run("calibrate", "--import", write(f"{folder}/pairs.json", {**some, "together": 1 << 20, "collectives": pairs}), "-o",
        f"{folder}/pairs.machine.json")
    with open(f"{folder}/pairs.machine.json", encoding="utf-8") as stream:
        collectives = json.load(stream)["collectives"]
    span = collectives["within"][0]
    expect(near(float(span["overhead"].split()[0]), 1e-4, 1e-3) and
           near(float(span["copy_bandwidth"].split()[0]), 1e10, 1e-3), f"so is what the processor has of them: {span}")
    expect(collectives["least"] == 2 and float(collectives["together"].split()[0]) == 1 << 20,
           f"two devices have them, and gradients go together: {collectives}")
    expect(near(float(span["bandwidth"].split()[0]), 1e9, 1e-3) and near(float(span["latency"].split()[0]), 1e-3, 1e-3),
           f"collectives are fitted: {span}")
    # Two devices gather by one message each way, and all-reduce by one after the other, half the vector in each.
    pairs = [{**pair, "kind": kind, "seconds": n * (1e-3 + pair["bytes"] / 2 / 1e9)}
             for pair in pairs for kind, n in (("all-reduce", 2), ("all-gather", 1), ("reduce-scatter", 1))]
    run("calibrate", "--import", write(f"{folder}/kinds.json", {**some, "collectives": pairs}), "-o",
        f"{folder}/kinds.machine.json")
    with open(f"{folder}/kinds.machine.json", encoding="utf-8") as stream:
        machine = json.load(stream)
    link, spans = machine["node"]["links"][0], machine["collectives"]["within"]
    took = {span["collective"]: float(span["latency"].split()[0]) for span in spans[1:]}
    expect("collective" not in spans[0] and took.keys() == {"all-reduce", "all-gather", "reduce-scatter"} and
           all(near(took[kind], n * 1e-3, 1e-3) for kind, n in (("all-reduce", 2), ("all-gather", 1), ("reduce-scatter", 1))),
           f"each collective has a latency of its own: {spans}")
    expect(near(float(link["latency"].split()[0]), 1e-3, 1e-3), f"messages of pairs take what theirs do: {link}")
    # Where what they exchange was timed, by that: each sends a half of its half.
    swaps = [{"kind": "all-to-all", "devices": 2, "bytes": b, "seconds": 2e-3 + b / 4 / 5e8, "beside": 1e-4, "spread": 0}
             for b in (1 << 12, 1 << 16, 1 << 20, 1 << 24)]
    run("calibrate", "--import", write(f"{folder}/swaps.json", {**some, "collectives": pairs + swaps}), "-o",
        f"{folder}/swaps.machine.json")
    with open(f"{folder}/kinds.machine.json", encoding="utf-8") as before, open(f"{folder}/swaps.machine.json",
                                                                               encoding="utf-8") as stream:
        spans, machine = json.load(before)["collectives"]["within"], json.load(stream)
    link = machine["node"]["links"][0]
    expect(near(float(link["latency"].split()[0]), 2e-3, 1e-3) and near(float(link["bandwidth"].split()[0]), 5e8, 1e-3) and
           machine["collectives"]["within"] == spans, f"exchanges are timed for links, and for nothing else: {link}")


def check_refused(folder, times):
    def changed(change):
        document = copy.deepcopy(times)
        change(document)
        return document

    def one(key, value):
        return lambda t: t["kernels"][0].__setitem__(key, value)
    cases = [("no JSON", "{"), ("no \"cleave_times\"", {"kernels": []}),
             ("0 is not in the range 1e-12", changed(one("seconds", 0))), ("-1 is not in the range 0", changed(one("flops", -1))),
             ("unknown", changed(one("second", 1))),
             ("there twice", changed(lambda t: t["kernels"].append(t["kernels"][0]))),
             ("none of all-reduce", changed(lambda t: t["collectives"].append(
                 {"kind": "gather", "devices": 2, "bytes": 1, "seconds": 1, "spread": 0})))]
    for words, document in cases:
        path, machine = write(f"{folder}/wrong.json", document), f"{folder}/none.json"
        said = run("calibrate", "--import", path, "-o", machine, code=2)
        expect(said.count("\n") == 1 and path in said and (words in said or words in ("no JSON", "unknown")),
               f"{words}: {said.strip()}")
        expect(not os.path.exists(machine), f"{words}: nothing is written")
    for words, arguments in (("one of them at a time", ("--import", "t", "--list-kernels", "k")),
                             ("--model M.onnx is missing", ("--list-kernels", f"{folder}/k")),
                             ("-o MACHINE.json is missing", ("--import", "t")),
                             ("is torch", ("--through", "thoth", "--model", "m.onnx", "-o", f"{folder}/m"))):
        said = run("calibrate", *arguments, code=2)
        expect(words in said and said.count("\n") == 1, f"{words}: {said.strip()}")


with tempfile.TemporaryDirectory() as work:
    for model, size in MODELS:
        found, file = check_model(work, model, size)
    check_files(work, found, file)
    check_refused(work, found)
sys.exit(1 if failed else 0)
