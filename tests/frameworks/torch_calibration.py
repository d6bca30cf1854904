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
import math
import os
import resource
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


def check_pages(calibrate, listed):
    """Without a plan gradients come from the system anew in each step where they are many; under one of several devices,
    where malloc keeps memory, they do not."""
    from cleave.torch import pages
    mega = 1 << 20
    for freed, told in (([5 * mega] * 4, True), ([mega, mega // 2], False), ([8 * mega] * 2, False), ([9 * mega] * 6, True),
                        ([144 * mega, mega], False), ([144 * mega] + [mega] * 4, True)):
        each = pages.price(freed)
        expect((each > 0) == told, f"pieces of {freed} bytes go back to the system: {told}")
        # A processor writes 1 to 30 GB/s of pages, which take longer than what is there already.
        expect(not told or 3e-11 < each < 2e-9, f"a byte of new pages takes {each * 1e9} ns")
    expect(pages.of_gradients([4, 3, 64 * mega], 10.0) == 70, "what is kept is counted")
    many = {**listed, "devices": 1, "touched_bytes": 1 << 20, "freed_bytes": [9 * mega] * 6}
    timer = calibrate.Timer(torch.device("cpu"), many, False, 0.0)
    expect(timer.page_price > 0, "a model of many gradients has pages")
    added = calibrate.overhead.measure
    calibrate.overhead.measure = lambda *_: None
    try:
        expect(calibrate.Timer(torch.device("cpu"), {**many, "devices": 2}, False, 0.0).page_price == 0, "but not under a plan")
    finally:
        calibrate.overhead.measure = added
    n, price = 0, 3e-3
    for entry in (e for e in listed["operators"] if e["wanted"] and e["backward"]):
        timer.page_price = 0.0
        plain = timer.operator(entry)[0]
        timer.page_price = price
        paged = timer.operator(entry)[0]
        own = {o["tensor"]: o for nest in entry["nests"] for o in (nest["inputs"][i] for i in nest["gradients"])
               if o["parameter"]}
        n += len(own)
        more = sum(4 * math.prod(o["shape"]) for o in own.values()) * price
        expect(abs(paged - plain - more) <= 1e-3 * more + 0.01, f"{more} s of pages are added to {plain}: {paged}")
    expect(n > 2, f"a perceptron has gradients: {n}")


def count_faults():
    """Of memory that is taken and freed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces = [torch.ones(4 << 20, dtype=torch.uint8) for _ in range(4)]
    del pieces
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def faults_under_plan(keep_memory):
    """Once a model runs a plan, in a process of its own, whose malloc is as it was."""
    from cleave.torch import apply, overhead
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            overhead.apply = lambda model, plan: apply(model, plan, keep_memory=keep_memory)
            with overhead._group():
                overhead._Chain(torch.zeros(1), 1).planned(False)
                count_faults()
                os.write(write, str(max(count_faults() for _ in range(3))).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as stream:
        return int(stream.read())


def check_memory_is_kept(pages):
    """What is freed is there again under a plan, and while operators are timed, so that a repeat takes as long as the one
    before."""
    without, under = faults_under_plan(False), faults_under_plan(True)
    if pages.keep():
        expect(without > 4000 and under < 100, f"a plan has malloc keep memory: {without} faults without, and {under}")
        count_faults()
        found = [count_faults() for _ in range(3)]
        expect(max(found) < 100, f"4 x 4 MiB that were freed are taken again without faults: {found}")


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
    expect(0 < said["step_seconds"] < 60 and wanted, f"a step has a price: {said['step_seconds']}")
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


def check_repeats():
    """A collective of many bytes is repeated no longer than one of few: seconds are what a person waits for."""
    from cleave.torch import calibrate, collectives, overhead, repeats
    calls = []

    def call(seconds):
        calls.append(seconds)
        time.sleep(seconds)
    with overhead._group():
        group, device = torch.distributed.group.WORLD, torch.device("cpu")
        took, _ = collectives.median(lambda: call(0.3), device, group)
        n_long, began = len(calls), time.perf_counter()
        steady, _ = collectives.median(lambda: call(0.02), device, group)
        spent = time.perf_counter() - began
    expect(0.29 < took < 0.5 and n_long <= 4, f"300 ms are timed thrice: {n_long} calls, {took * 1e3:.1f} ms")
    expect(0.019 < steady < 0.05 and len(calls) - n_long > 20, f"20 ms many times: {len(calls) - n_long} in {spent:.1f} s")
    expect(repeats.are_enough([1.0, 1.01, 1.02, 1.0, 1.01], 0.1, 0.8), "what is steady is known after five")
    expect(not repeats.are_enough([1.0, 1.3, 1.6, 1.0, 1.3], 0.1, 0.8), "what spreads is not")
    expect(not repeats.are_enough([1.0, 1.0], 9.0, 0.8), "and three there are at least")
    n_before, clock = len(calls), calibrate.Clock(device, 1 << 20, 0.12)
    took, _ = clock.median(lambda: None, lambda _: call(0.2))
    expect(0.19 < took < 0.4 and len(calls) - n_before == 4, f"nor an operator: {len(calls) - n_before} calls, {took} s")


def check_ranks():
    """Ranks that work for 4 and 6 ms between two collectives, 5 on the mean as operators are timed, meet every 10."""
    from cleave.torch import collectives
    expect(abs(collectives._added((4e-3, 6e-3), (10e-3, 9.9e-3), True) - 5e-3) < 1e-9, "a rank waits for the slower one")
    expect(abs(collectives._added((4e-3, 6e-3), (7e-3, 7.5e-3), False) - 1.5e-3) < 1e-9, "but not beside work")


def check_less_than_nothing():
    """Where others work meanwhile a collective with work may take less than that work alone, however often: no figure yet."""
    from cleave.torch import collectives, overhead, repeats
    took, seconds = [], collectives._seconds
    with overhead._group():
        collectives._seconds = lambda calls, device, group: took.append(2.0 if len(took) % 2 == 0 else 1.0) or took[-1]
        try:
            found, spread = collectives.median(None, torch.device("cpu"), torch.distributed.group.WORLD, beside=([], 1))
        finally:
            collectives._seconds = seconds
    expect(len(took) == 2 * repeats.MOST and found > 0, f"it is repeated as often as may be: {len(took)}")
    expect(repeats.summary([-1.0, 1e-9, 1.0])[1] <= 1e6 >= spread, "a spread is what a file of times may have")


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
    from cleave.torch import calibrate, calls, pages
    import models
    torch.set_num_threads(1)
    check_memory_is_kept(pages)
    check_rare()
    check_repeats()
    check_ranks()
    check_less_than_nothing()
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
                check_pages(calibrate, listed)
                check_measure(cleave, make, data, check_script(cleave, folder, given, path, listed))
                check_leaves(cleave, folder, given, make)
    if failed:
        sys.exit(1)
    print(f"{n} passes of operators are calls of PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
