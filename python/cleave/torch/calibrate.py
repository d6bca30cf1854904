"""Times what Cleave lists, as PyTorch runs it: python3 -m cleave.torch.calibrate KERNELS.json -o TIMES.json

`cleave calibrate --list-kernels KERNELS.json` lists, and `cleave calibrate --import TIMES.json -o MACHINE.json` takes the
times; `cleave calibrate --through torch` does all three.  A run that was ended goes on where it stopped.
"""
import argparse
import contextlib
import itertools
import json
import os
import sys
import time

import torch

from ..command import CleaveError
from . import busy, calls, collectives, overhead, pages, repeats, under_way

SAMPLED = 12  # operators that are timed beforehand
SAVE_SECONDS = 5
CANNOT = (NotImplementedError, RuntimeError, ValueError, TypeError, IndexError, StopIteration, KeyError)
MOST_BETWEEN = 1 << 28  # bytes of other memory between two repeats, if a step touches more


class Clock:
    """Seconds of a call on a device, other memory touched before."""

    def __init__(self, device, between_bytes, each):
        self.device, self.cuda, self.each = device, device.type == "cuda", each
        n = min(max(between_bytes, 1 << 20), between_limit(self.cuda))
        self.between = torch.zeros(n // 4, device=device)

    def once(self, prepare, run):
        held = prepare()
        if self.cuda:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run(held)
            end.record()
            torch.cuda.synchronize()
            return start.elapsed_time(end) / 1e3
        began = time.perf_counter()
        run(held)
        return time.perf_counter() - began

    def median(self, prepare, run, offset=0.0, fewest=repeats.FEWEST):
        """Median and half the interquartile range over it, of warm repeats."""
        for _ in range(3 if self.cuda else 1):
            self.once(prepare, run)
        seconds, began = [], time.perf_counter()
        while not repeats.are_enough(seconds, time.perf_counter() - began, self.each, fewest):
            seconds.append(self.once(prepare, run))
        median, spread = repeats.summary(seconds)
        return max(median - offset, 1e-9), spread

    def forget(self, near):
        """As a step leaves the caches: what the call before has written lies near, all else does not."""
        self.between.add_(1)
        with torch.no_grad():
            for x in near:
                if x.is_floating_point():
                    x.add_(0)


def between_limit(cuda):
    """Three times the largest cache: more does not make anything colder."""
    if cuda:
        return MOST_BETWEEN
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index3/size", encoding="ascii") as stream:
            return min(3 * 1024 * int(stream.read().strip().rstrip("K")), MOST_BETWEEN)
    except (OSError, ValueError):
        return 96 << 20


# ---- what is timed ----------------------------------------------------------------------------------------------

class Timer:
    def __init__(self, device, listed, compiled, each):
        self.device, self.compiled = device, compiled
        self.clock = Clock(device, listed["touched_bytes"], each)
        kept = device.type == "cpu" and pages.keep()  # which a plan for several devices does, too
        self.page_price = pages.price(listed["freed_bytes"]) if kept and listed["devices"] == 1 else 0.0
        x = torch.zeros(1, device=device, requires_grad=True)
        y = x.view(1)
        g = torch.ones(1, device=device)
        # Starting backward takes a while, which a step spends once, not once for each operator.
        self.start = self.clock.median(lambda: None, lambda _: torch.autograd.backward([y], [g], retain_graph=True,
                                                                                       inputs=[x]))[0]
        self.added = None
        if listed["devices"] > 1 and device.type == "cpu":  # a GPU works on while its processor dispatches
            self.added = overhead.measure(self.clock, device, listed["touched_bytes"])

    def operator(self, entry):
        """With what a plan adds to it, where there is one to be."""
        call = calls.Call(entry, self.device)
        took, spread = self.plain(call, entry["backward"])
        if entry["backward"]:
            took += pages.of_gradients(call.gradients, self.page_price)
        if self.added is not None:
            n_of = {"module": call.is_module, "parameter": call.n_parameters, "loss": call.is_loss,
                    "function": call.n_first, "next": call.n_next}
            took += sum(n * self.added[what][entry["backward"]] for what, n in n_of.items())
        return took, spread

    def plain(self, call, backward, fewest=repeats.FEWEST):
        clock = self.clock
        forward = torch.compile(call.forward) if self.compiled else call.forward
        if not backward:
            return clock.median(lambda: clock.forget(call.near), lambda _: call.forget_outputs() or forward(), fewest=fewest)
        gradient = torch.ones_like(forward())

        def prepare():
            for leaf in call.leaves:
                leaf.grad = None
            call.forget_outputs()
            y = forward()
            clock.forget([gradient])
            return y

        return clock.median(prepare, lambda y: torch.autograd.backward([y], [gradient], inputs=call.leaves), self.start,
                            fewest)

    def copies(self, entry):
        family, n = entry["family"], entry["size"] // 4
        x, y = (torch.ones(max(n, 1), device=self.device) for _ in range(2))
        if family == "update":
            return self.update(n)
        if family == "copy rows":
            row = entry["row"] // 4
            x = torch.ones(n // row, 2, row, device=self.device)[:, 0]
            y = y[:n // row * row].view(n // row, row)
        near = [x, y] if family == "sum" else [x]
        run = (lambda _: y.add_(x)) if family == "sum" else (lambda _: y.copy_(x))
        return self.clock.median(lambda: self.clock.forget(near), run)

    def update(self, n):
        """One of several parameters: starting the optimizer is not what one takes."""
        count = max(1, min(8, (1 << 26) // max(n, 1)))
        parameters = [torch.nn.Parameter(torch.ones(max(n, 1), device=self.device)) for _ in range(count)]
        for p in parameters:
            p.grad = torch.ones_like(p)
        optimizer = torch.optim.SGD(parameters, lr=1e-6)
        seconds, spread = self.clock.median(lambda: self.clock.forget([]), lambda _: optimizer.step())
        return seconds / count + (self.added["update"] if self.added is not None else 0.0), spread


def usual_seconds(listed, device):
    """What some operators of a step take, short and long, each once more than warm."""
    wanted = [entry for entry in listed["operators"] if entry.get("wanted", True)]
    timer, took = Timer(device, {**listed, "devices": 1}, False, 0.0), []
    for entry in wanted[::max(len(wanted) // SAMPLED, 1)]:
        with contextlib.suppress(*CANNOT):
            call = calls.Call(entry, device)
            took.append(timer.plain(call, entry["backward"], fewest=2)[0])
    return took


# ---- the file ---------------------------------------------------------------------------------------------------

class Times:
    """TIMES.json: what was timed by now, kept from run to run of the same framework on the same device."""

    def __init__(self, path, by):
        self.path, self.by, self.saved = path, by, time.monotonic()
        self.kernels, self.collectives, self.failed = {}, {}, {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as stream:
                try:
                    old = json.load(stream)
                except json.JSONDecodeError as error:
                    raise CleaveError(f"{path}: is no file of times: {error}") from None
            if old.get("cleave_times") != 1:
                raise CleaveError(f"{path}: is no file of times, and would be written over: give another name")
            if old["measured_by"] == by:
                self.kernels = {k["key"]: k for k in old["kernels"]}
                self.collectives = {(c["kind"], c["devices"], c["bytes"]): c for c in old["collectives"]}
                self.failed = {f["key"]: f for f in old["failed"]}

    def save(self, at_once=True):
        if not at_once and time.monotonic() - self.saved < SAVE_SECONDS:
            return
        written = {"cleave_times": 1, "measured_by": self.by, "together": under_way.MOST_BYTES,
                   "kernels": list(self.kernels.values()),
                   "collectives": list(self.collectives.values()), "failed": list(self.failed.values())}
        temporary = f"{self.path}.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as stream:
            json.dump(written, stream, indent=1)
        os.replace(temporary, self.path)
        self.saved = time.monotonic()


class Progress:
    def __init__(self, n, quiet):
        self.n, self.quiet, self.began, self.shown = n, quiet, time.monotonic(), time.monotonic()

    def update(self, done, what):
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if self.quiet or now - self.began < 2 or now - self.shown < (0.2 if terminal else 10):
            return
        self.shown = now
        print(f"{chr(13) if terminal else ''}timing in torch: {done} of {self.n}, {what[:40]:40}", file=sys.stderr,
              end="" if terminal else "\n", flush=True)

    def end(self):
        if sys.stderr.isatty() and self.shown > self.began:
            print("\r" + " " * 78 + "\r", file=sys.stderr, end="")


def describe(device, precision, threads, compiled):
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        name, memory = f"cuda: {properties.name}", properties.total_memory
    else:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // max(1, os.cpu_count() // threads)
        name = "cpu"
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            for line in itertools.islice(stream, 40):
                if line.startswith("model name"):
                    name = f"cpu: {line.split(':', 1)[1].strip()}"
    return {"framework": f"torch {torch.__version__}", "device": name, "precision": precision, "threads": threads,
            "compiled": compiled, "memory_bytes": memory}


def read_list(path):
    try:
        with open(path, encoding="utf-8") as stream:
            listed = json.load(stream)
    except OSError as error:
        raise CleaveError(f"{path}: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise CleaveError(f"{path}: is no JSON: {error}") from None
    if not isinstance(listed, dict) or listed.get("cleave_kernels") != 1:
        raise CleaveError(f"{path}: is no list of kernels of version 1: cleave calibrate --list-kernels writes one")
    return listed


def time_all(listed, times, timer, seconds, quiet):
    """Copies, wanted operators whatever time it takes, then others until `seconds` are over."""
    work = [(entry, timer.copies) for entry in listed["copies"]]
    work += [(entry, timer.operator) for entry in listed["operators"]]
    began, progress = time.monotonic(), Progress(len(work), quiet)
    for i, (entry, run) in enumerate(work):
        key = entry["key"]
        if key in times.kernels or key in times.failed:
            continue
        if not entry.get("wanted", True) and time.monotonic() - began > seconds:
            break
        try:
            took, spread = run(entry)
            times.kernels[key] = {"key": key, "family": entry["family"], "flops": entry["flops"],
                                  "bytes": entry["bytes"], "seconds": took, "spread": spread}
        except CANNOT as error:
            why = (str(error).strip().splitlines() or [""])[0]
            times.failed[key] = {"key": key, "why": f"{type(error).__name__}: {why}"}
        progress.update(i + 1, entry["family"])
        times.save(at_once=False)
    progress.end()
    times.save()
    return sum(1 for entry, _ in work if entry["key"] not in times.kernels and entry["key"] not in times.failed)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m cleave.torch.calibrate", description=__doc__.splitlines()[0])
    parser.add_argument("kernels", metavar="KERNELS.json")
    parser.add_argument("-o", dest="times", metavar="TIMES.json", required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=("f32", "bf16"), help="as the list has it; another one is refused")
    parser.add_argument("--compile", action="store_true", help="as torch.compile makes it")
    parser.add_argument("--threads", type=int, default=1, help="of a device that is a cpu (default 1)")
    parser.add_argument("--time", type=float, default=120, help="seconds for what only other splits would need")
    parser.add_argument("--each", type=float, default=0.12, help="seconds for one piece of work (default 0.12)")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    a = parser.parse_args(arguments)
    listed = read_list(a.kernels)
    if a.precision and a.precision != listed["precision"]:
        raise CleaveError(f"--precision {a.precision}: {a.kernels} is for {listed['precision']}: "
                          f"list with --precision {a.precision}")
    if a.device == "cuda" and not torch.cuda.is_available():
        raise CleaveError("--device cuda: PyTorch finds no GPU here")
    torch.set_num_threads(a.threads)
    if collectives.is_launched() and int(os.environ["RANK"]) > 0:  # the first rank times all else then
        collectives.time_launched(listed["collectives"], None, a.device)
        return
    device = torch.device(a.device)
    times = Times(a.times, describe(device, listed["precision"], a.threads, a.compile))
    known = len(times.kernels)
    is_missing = any(collectives.list_wanted(listed["collectives"], times))
    usual = usual_seconds(listed, device) if is_missing and a.device == "cpu" else []
    if collectives.is_launched():
        collectives.time_launched(listed["collectives"], times, a.device, usual)
    else:
        collectives.time_all(listed["collectives"], times, a.device, a.threads, usual)
    n_others = 0 if a.device == "cuda" else min(listed["devices"], (os.cpu_count() or 1) // a.threads) - 1
    with busy.others(n_others, a.kernels, a.threads, a.compile, a.each):
        left = time_all(listed, times, Timer(device, listed, a.compile, a.each), a.time, a.quiet)
    times.save()
    print(f"{len(times.kernels) - known} timed now, {known} before, {len(times.failed)} that PyTorch could not do, "
          f"{left} left to interpolation; {len(times.collectives)} collectives: {a.times}")
    for failed in list(times.failed.values())[:3]:
        print(f"  {failed['key'][:70]}: {failed['why']}")


if __name__ == "__main__":
    try:
        main()
    except CleaveError as refused:
        sys.exit(f"cleave.torch.calibrate: {refused}")
