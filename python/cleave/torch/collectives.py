"""Times collectives as a plan moves tensors, with what it does in Python and its copies: of ranks that this script starts,
or of those of a launcher that started it.

Of each two times: what it takes where it is waited for, as between modules, and what it takes from work that goes on
meanwhile, as from a backward that goes on while gradients are summed up.  The second is what the processor does itself:
to launch it, and what the library's threads take from it."""
import datetime
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from . import lie, pages, repeats

EACH_SECONDS = 0.8  # for one figure, but for the fewest repeats
CHAIN, CHAIN_SECONDS = 8, 0.2  # calls in a row, but no longer than this
BETWEEN_SECONDS, MOST_BETWEEN = 5e-4, 0.015  # work between two of them
SIDE, TRIES = 128, 7  # of the products that it is, and how often one is timed


MOVES = {"all-reduce": ("P", "R"), "all-gather": ("S0", "R"), "reduce-scatter": ("P", "S0"),
         "all-to-all": ("S0", "S1")}


def run(kind, n_bytes, device, group):
    """A call of a collective, whose whole vector has so many bytes, and one that begins it and gives what ends it."""
    mesh = DeviceMesh.from_group(group, device.type)
    before, after = MOVES[kind]
    n = mesh.size()
    elements = max(1, n_bytes // 4 // n // n) * n * n
    shape = [elements // n, n] if after == "S1" else [elements]
    here = torch.ones([shape[0] // n, *shape[1:]] if before == "S0" else shape, device=device)
    x = DTensor.from_local(here, mesh, lie.placements([before]), run_check=False).requires_grad_()
    return lambda: lie.redistribute(x, mesh, [after]), lambda: lie.launch(here, before, after, group)


def _beside(begin, work):
    """Work, with a collective under way."""
    def call():
        end = begin()
        for product in work:
            product()
        end()
    return call


def _seconds(calls, device, group):
    """Of all of them, one after the other, on ranks that begin together."""
    dist.barrier(group)
    start = time.perf_counter()
    for call in calls:
        call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def between(device, group, seconds=BETWEEN_SECONDS):
    """Work such as a step has between two collectives, as much on every rank: products."""
    x = torch.full((SIDE, SIDE), 1 / SIDE, device=device)
    took = min(_seconds([lambda: x @ x], device, group) for _ in range(TRIES))
    n = torch.tensor([max(seconds / took, 1.0)], device=device)
    dist.all_reduce(n, dist.ReduceOp.MAX, group=group)
    return [lambda: x @ x] * int(n)


def _chain(call, device, group, usual):
    """Calls in a row, each behind work of its own, and that work; no more of them than take so long."""
    once = _agreed(_seconds([call], device, group), device, group)
    n = max(1, min(len(usual), round(CHAIN_SECONDS / once)))
    works = [between(device, group, min(usual[i * len(usual) // n], MOST_BETWEEN)) for i in range(n)]
    return [step for work in works for step in (*work, call)], [product for work in works for product in work], n


def _added(alone, together, waits):
    """Seconds that calls add to work, of those of each rank without and with them.  Operators are timed as a rank takes for
    them on the mean, so where ranks wait for one another what the slower takes longer is the calls'."""
    return max(together) - (sum(alone) / len(alone) if waits else max(alone))


def median(call, device, group, usual=None, beside=None):
    """What a call adds to work; all ranks repeat as often.  Ranks that meet while they work take turns
    with their own threads and wake each other, now and then for milliseconds, and a step adds all of it up: so it is
    the mean of a chain of them that is repeated, and its median that is given.  `usual`: seconds that a step works between
    two, of some of them.  A thread of the library that wakes where a rank has long been at work waits for its core until the
    system's scheduler looks again, a millisecond or two later.  `beside`: what the call does besides, and how many are a
    chain."""
    if beside is not None:
        row, work, chain = [call] * beside[1], beside[0] * beside[1], beside[1]
    else:
        row, work, chain = _chain(call, device, group, usual or [BETWEEN_SECONDS] * CHAIN)
    seconds, began = [], time.perf_counter()
    again = torch.ones(1, device=device)
    while again.item() > 0:
        took = torch.tensor([_seconds(work, device, group), _seconds(row, device, group)],
                            dtype=torch.float64, device=device)
        ranks = [torch.empty_like(took) for _ in range(dist.get_world_size(group))]
        dist.all_gather(ranks, took, group=group)
        alone, together = zip(*(rank.tolist() for rank in ranks))
        # Beside others' work it is less than nothing, too, which is then no figure.
        seconds.append(_added(alone, together, beside is None) / chain)
        enough = repeats.are_enough(seconds, time.perf_counter() - began, EACH_SECONDS)
        again = torch.tensor([float(not enough)], device=device)
        dist.broadcast(again, 0, group=group)
    found, spread = repeats.summary(seconds)
    return max(found, 1e-9), spread


def beside(begin, waited_for, device, group):
    """What it takes from work that goes on for twice as long as it does itself."""
    work = between(device, group)
    work = work * max(1, round(2 * waited_for / BETWEEN_SECONDS))
    chain = max(1, round(CHAIN * BETWEEN_SECONDS / max(waited_for, BETWEEN_SECONDS)))
    return median(_beside(begin, work), device, group, beside=(work, chain))[0]


def begin(device_type):
    """Joins the ranks that the environment tells of, which may wait long for the first."""
    device = torch.device("cpu")
    if device_type == "cpu":
        pages.keep()  # as under a plan
    else:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", os.environ["RANK"])))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device_type == "cuda" else "gloo", timeout=datetime.timedelta(hours=12))
    return device


def work(rank, ranks, entries, port, device_type, threads, usual, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.set_num_threads(threads)
    for found in time_here(entries, begin(device_type), usual):
        if rank == 0:
            queue.put(found)
    dist.barrier()
    os._exit(0)  # gloo of PyTorch 2.6 may wait for ever where groups end


def time_here(entries, device, usual):
    """(entry, seconds, beside, spread) or (entry, None, None, why), on the ranks that are there."""
    rank, groups = dist.get_rank(), {}
    for entry in entries:
        n = entry["devices"]
        if n > dist.get_world_size():
            continue
        if n not in groups:
            groups[n] = dist.new_group(list(range(n))) if n < dist.get_world_size() else dist.group.WORLD
        if rank >= n:
            continue
        try:
            call, launch = run(entry["kind"], entry["bytes"], device, groups[n])
            seconds, spread = median(call, device, groups[n], usual=usual)
            yield entry, seconds, beside(launch, _agreed(seconds, device, groups[n]), device, groups[n]), spread
        except (RuntimeError, NotImplementedError, ValueError) as error:
            yield entry, None, None, (str(error).strip().splitlines() or [""])[0]


def _agreed(seconds, device, group):
    first = torch.tensor([seconds], dtype=torch.float64, device=device)
    dist.broadcast(first, 0, group=group)
    return first.item()


def describe(entry):
    return f"{entry['kind']} of {entry['devices']} devices, {entry['bytes']} bytes"


def keep(times, found):
    entry, seconds, aside, spread = found
    key = (entry["kind"], entry["devices"], entry["bytes"])
    if seconds is None:
        times.failed[describe(entry)] = {"key": describe(entry), "why": spread}
    else:
        times.collectives[key] = {**entry, "seconds": seconds, "beside": aside, "spread": spread}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_launched():
    """By torchrun, or another launcher that sets its variables."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def time_launched(entries, times, device_type, usual=()):
    """On the ranks of a launcher; `times` is None but on the first, which says what work is usual between two."""
    device, first = begin(device_type), dist.get_rank() == 0
    wanted = [list_wanted(entries, times) if first else None, usual]
    dist.broadcast_object_list(wanted, 0, device=device)
    for found in time_here(wanted[0], device, wanted[1]):
        if first:
            keep(times, found)
            times.save(at_once=False)
    dist.barrier()
    dist.destroy_process_group()


def list_wanted(entries, times):
    return [e for e in entries if (e["kind"], e["devices"], e["bytes"]) not in times.collectives
            and describe(e) not in times.failed]


def time_all(entries, times, device_type, threads, usual=()):
    """Those that are not known yet, of up to as many ranks as the list wants and there are devices for; `usual`: seconds
    of work between two, of some of them."""
    wanted = list_wanted(entries, times)
    here = torch.cuda.device_count() if device_type == "cuda" else os.cpu_count() or 1
    ranks = min(max((e["devices"] for e in wanted), default=0), here)
    if ranks < 2:
        return
    # A Python that is run by a script of its own says so, as tests/frameworks/setup makes one.
    torch.multiprocessing.set_executable(os.environ.get("PYTHON_EXEC", sys.executable))
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    started = torch.multiprocessing.start_processes(work, (ranks, wanted, free_port(), device_type, threads, usual, queue),
                                                    nprocs=ranks, join=False, start_method="spawn")
    while not started.join(timeout=0.2) or not queue.empty():
        while not queue.empty():
            keep(times, queue.get())
            times.save(at_once=False)
    times.save()
