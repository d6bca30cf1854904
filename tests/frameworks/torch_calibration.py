#!/usr/bin/env python3
"""Calibration through PyTorch: what is listed is what a model does, and a run that was ended goes on.

usage: torch_calibration.py CLEAVE TREE

Every operator of the test models is a call that gives an output of the operator's shape, and gradients of all that it
has gradients of.  The script keeps what it timed before, times collectives of two ranks, and its file makes a machine
by which a step has a price.  Exits 77 where there is no PyTorch.
"""
import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}; ./bootstrap frameworks sets PyTorch up")
    sys.exit(77)

BATCH = 8
# Not those that are long in the running, nor the one whose tables are made in double, which no importer takes.
CALIBRATED = ("perceptron", "convolutional", "residual", "language", "recommender")
failed = []


def expect(truth, claim):
    if not truth:
        failed.append(claim)
        print(f"not so: {claim}")


def list_of(cleave, folder, name, make, data, devices):
    inputs, _ = data(4)
    onnx, path = os.path.join(folder, f"{name}.onnx"), os.path.join(folder, f"{name}.kernels.json")
    floats = [i for i, x in zip(cleave.torch.export(make(), inputs, onnx), inputs) if x.is_floating_point()]
    given = ["--model", onnx, "--batch", str(BATCH)] + (["--inputs", ",".join(floats)] if floats else [])
    subprocess.run([cleave.command.find(), "calibrate", "--list-kernels", path, *given, "--devices", str(devices)],
                   check=True, stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as stream:
        return given, path, json.load(stream)


def check_call(entry, calls):
    call = calls.Call(entry, torch.device("cpu"))
    y = call.forward()
    shapes = [tuple(nest["output"]["shape"]) for nest in entry["nests"]]
    expect(tuple(y.shape) in shapes or y.dim() == 0, f"{entry['key']} gives {tuple(y.shape)}, and its nests {shapes}")
    if entry["backward"]:
        torch.autograd.backward([y], [torch.ones_like(y)], inputs=call.leaves)
        written = {nest["output"]["tensor"] for nest in entry["nests"]}
        wanted = {nest["inputs"][i]["tensor"] for nest in entry["nests"] for i in nest["gradients"]} - written
        expect(len(call.leaves) == len(wanted), f"{entry['key']} has gradients of {len(wanted)} tensors")
        expect(all(leaf.grad is not None for leaf in call.leaves), f"{entry['key']} gives all of them")


def walk(node):
    return [node] + [found for before, _ in node.next_functions if before for found in walk(before)]


def check_counts(listed, calls):
    """Of the perceptron to a plan: linear layers, with relu behind each but the last, and a loss."""
    found = {(c.is_module, c.is_loss, c.n_functions) for c in (calls.Call(entry, torch.device("cpu"))
                                                               for entry in listed["operators"] if entry["wanted"])}
    expect(found == {(True, False, 1), (True, False, 0), (False, True, 0)}, f"modules and functions are told: {found}")


def check_views(listed, calls):
    """Of a language model: attention is to a plan what a module is, and reads through views of what modules give."""
    found = [calls.Call(entry, torch.device("cpu")) for entry in listed["operators"]
             if entry["wanted"] and any(nest["kind"] == "attention" for nest in entry["nests"])]
    expect(found and all(c.is_module and c.n_parameters == 0 and c.n_first == 3 and c.n_next >= 2 for c in found),
           f"views are counted: {[(c.is_module, c.n_first, c.n_next) for c in found]}")


def check_usual(calibrate, listed):
    """Ranks work between two collectives for as long as operators take, some short and some long."""
    from cleave.torch import collectives, overhead
    device, calls = torch.device("cpu"), []
    usual = calibrate.usual_seconds({**listed, "touched_bytes": 1 << 20}, device)
    expect(len(usual) > 4 and all(0 < each < 0.1 for each in usual), f"operators of a perceptron take {usual} s")
    with overhead._group():
        began = time.perf_counter()
        collectives.median(lambda: calls.append(time.perf_counter()), device, torch.distributed.group.WORLD, [4e-4, 8e-3])
    gaps = [b - a for a, b in zip(calls, calls[1:])]
    expect(calls[0] > began and sum(gap > 4e-3 for gap in gaps) >= len(gaps) // 3, f"work between two is as told: {gaps[:8]}")


def check_vectors(calibrate, listed):
    """What a plan takes memory for: the vectors in which gradients of such sizes go, as backward sends them."""
    from cleave.torch import under_way
    sizes, sent = [8 << 20, 8 << 20, 4 << 20, 9 << 20, 14 << 20, 40 << 20, 1 << 10], []

    class Backward(under_way._Backward):
        def send(self, key):
            sent.append(sum(part.nbytes for _, part in self.waiting.pop(key)[1]))
    backward = Backward(None)
    for n in sizes:
        backward.add(None, torch.empty(n, dtype=torch.uint8), [])
    for key in list(backward.waiting):
        backward.send(key)
    expect(under_way.vectors(sizes) == sent and len(sent) > 3, f"vectors are those that are sent: {sent}")
    timer = calibrate.Timer(torch.device("cpu"), {**listed, "touched_bytes": 1 << 20, "freed_bytes": sizes}, False, 0.0)
    expect(sorted(timer.clock.freed_bytes) == sorted(sizes + sent), "they are taken and freed between repeats")


def time_in_script(calibrate, path, times):
    """As the script runs; here, since importing PyTorch once more takes longer than all that is timed."""
    with contextlib.redirect_stdout(io.StringIO()):
        calibrate.main([path, "-o", times, "--device", "cpu", "--each", "0.001", "--quiet"])
    with open(times, encoding="utf-8") as stream:
        return json.load(stream)


def check_script(cleave, folder, given, path, listed):
    """First of some operators, as of a run that was ended, then of all."""
    from cleave.torch import calibrate
    times, machine = os.path.join(folder, "times.json"), os.path.join(folder, "machine.json")
    small = {**listed, "copies": listed["copies"][-3:], "collectives": [], "touched_bytes": 1 << 20}
    small["operators"] = [e for e in listed["operators"] if e["wanted"]]
    with open(path, "w", encoding="utf-8") as stream:
        json.dump({**small, "operators": small["operators"][:4]}, stream)
    before = time_in_script(calibrate, path, times)
    with open(path, "w", encoding="utf-8") as stream:
        json.dump({**small, "collectives": [c for c in listed["collectives"] if c["bytes"] == 1 << 12]}, stream)
    after = time_in_script(calibrate, path, times)
    keys = [k["key"] for k in after["kernels"]]
    expect(after["kernels"][:len(before["kernels"])] == before["kernels"], "what was timed before is kept")
    expect(sorted(keys) == sorted(e["key"] for e in small["operators"] + small["copies"]), "all of the list is timed")
    expect(not after["failed"], f"PyTorch has a call for all: {after['failed']}")
    expect({c["kind"] for c in after["collectives"]} == {"all-reduce", "reduce-scatter", "all-gather", "all-to-all"},
           f"collectives of two ranks are timed: {after['collectives']}")
    subprocess.run([cleave.command.find(), "calibrate", "--import", times, "-o", machine], check=True,
                   stdout=subprocess.DEVNULL)
    said = cleave.command.run("simulate", *given, "--machine", machine, "--method", "single", "--devices", 1)
    wanted = [e for e in small["operators"] if e["nests"][0]["axes"].get("n") == BATCH]
    expect(0 < said["step_seconds"] < 1 and wanted, f"a step has a price: {said['step_seconds']}")
    return said["step_seconds"]


def joined_in_passes(cleave, folder, given, sizes, together):
    """Parameters whose gradients set out in the program behind each pass, where so many bytes go together."""
    machine, trace = os.path.join(folder, "machine.json"), os.path.join(folder, "trace.json")
    with open(machine, encoding="utf-8") as stream:
        described = json.load(stream)
    described["collectives"]["together"] = f"{together} B"
    with open(machine, "w", encoding="utf-8") as stream:
        json.dump(described, stream)
    cleave.command.run("simulate", *given, "--machine", machine, "--method", "data-parallel", "--devices", 2, "--trace", trace)
    found = [[]]
    with open(trace, encoding="utf-8") as stream:
        for event in json.load(stream)["traceEvents"]:  # in the order of the program
            if event["pid"] != 1 or event["ph"] != "X":
                continue
            if event["cat"] == "compute":
                found.append([])
            elif event["cat"] == "join" and event["name"].removeprefix("join ") in sizes:
                found[-1].append(event["name"].removeprefix("join "))
    return [names for names in found if names]


def check_leaves(cleave, folder, given, make):
    """Gradients set out in the program behind the passes behind which backward sends them."""
    from cleave.torch import under_way
    sizes = {name: parameter.nbytes for name, parameter in make().named_parameters()}
    come = [name for names in joined_in_passes(cleave, folder, given, sizes, 1) for name in names]
    expect(sorted(come) == sorted(sizes), f"all of them are summed up: {come}")

    class Backward(under_way._Backward):
        def send(self, key):
            sent[-1] += [name for name, _ in self.waiting.pop(key)[1]]
    most, used = under_way.MOST_BYTES, []
    try:
        for under_way.MOST_BYTES in (most, sum(sizes.values()) * 2 // 3, max(sizes.values())):
            backward, sent = Backward(None), []
            for name in come:
                sent.append([])
                backward.add(name, torch.empty(sizes[name], dtype=torch.uint8), [])
            for key in list(backward.waiting):
                backward.send(key)
            found = joined_in_passes(cleave, folder, given, sizes, under_way.MOST_BYTES)
            wanted = [sorted(names) for names in sent if names]
            expect([sorted(names) for names in found] == wanted, f"of {under_way.MOST_BYTES} bytes {wanted} go, and not {found}")
            used.append(len(found))
    finally:
        under_way.MOST_BYTES = most
    expect(used[0] == 1 and used[-1] > 1, f"at one time or at several: {used}")


def check_rare():
    """Collectives that now and then take long cost a step as much as all of them do together."""
    from cleave.torch import collectives, overhead
    calls = itertools.count()

    def call():
        if next(calls) % 8 == 7:
            time.sleep(0.08)
    with overhead._group():
        took, _ = collectives.median(call, torch.device("cpu"), torch.distributed.group.WORLD)
    expect(0.005 < took < 0.02, f"one of eight collectives takes 80 ms, and each counts as {took * 1e3:.2f} ms")


def check_measure(cleave, make, data, predicted):
    model, (inputs, targets) = make(), data(BATCH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(*inputs), targets).backward()
        optimizer.step()
    found = cleave.torch.measure(model, step, steps=5, predicted=predicted)
    expect(found.seconds > 0 and abs(found.error - (predicted / found.seconds - 1)) < 1e-12 and "predicted" in str(found),
           f"a measurement sets predicted beside measured: {found}")


def main():
    tree = sys.argv[2]
    os.environ["CLEAVE"] = sys.argv[1]
    python = os.path.join(tree, "python")
    os.environ["PYTHONPATH"] = python
    sys.path[:0] = [python, os.path.dirname(os.path.abspath(__file__))]
    import cleave
    import cleave.torch
    from cleave.torch import calibrate, calls
    import models
    torch.set_num_threads(1)
    check_rare()
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in CALIBRATED:
            make, data = models.MODELS[name]
            given, path, listed = list_of(cleave, folder, name, make, data, 2)
            for entry in listed["operators"]:
                if entry["wanted"] or len(listed["operators"]) < 50:  # the others are the same at other extents
                    check_call(entry, calls)
                    n += 1
            if name == "residual":
                cut = [e for e in listed["operators"] if e["type"] == "BatchNormalization" and "n" in e["nests"][0]["cut"]]
                y = calls.Call(cut[0], torch.device("cpu")).forward() if cut else None
                graph = list(map(str, walk(y.grad_fn))) if cut else []
                expect(any("SplitBatchNorm" in node for node in graph), f"a split batch is normalized as a plan does: {graph}")
            if name == "language":
                check_views(listed, calls)
            if name == "perceptron":
                check_counts(listed, calls)
                check_usual(calibrate, listed)
                check_vectors(calibrate, listed)
                check_measure(cleave, make, data, check_script(cleave, folder, given, path, listed))
                check_leaves(cleave, folder, given, make)
    if failed:
        sys.exit(1)
    print(f"{n} passes of operators are calls of PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
