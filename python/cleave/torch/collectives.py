"""Times collectives by torch.distributed: of ranks that this script starts, or of those of a launcher that started it."""
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing

FEWEST, MOST, EACH_SECONDS = 5, 40, 0.1


def run(kind, n_bytes, device, group):
    """A call of a collective, whose whole vector has so many bytes."""
    n = dist.get_world_size(group)
    elements = max(1, n_bytes // 4 // n) * n
    whole, part = torch.ones(elements, device=device), torch.ones(elements // n, device=device)
    if kind == "all-reduce":
        return lambda: dist.all_reduce(whole, group=group)
    if kind == "all-gather":
        return lambda: dist.all_gather_into_tensor(whole, part, group=group)
    return lambda: dist.reduce_scatter_tensor(part, whole, group=group)


def median(call, device, group):
    """Of the slowest rank; all ranks repeat as often."""
    call()
    seconds, began = [], time.perf_counter()
    again = torch.ones(1, device=device)
    while again.item() > 0:
        dist.barrier(group)
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        took = torch.tensor([time.perf_counter() - start], device=device)
        dist.all_reduce(took, dist.ReduceOp.MAX, group=group)
        seconds.append(took.item())
        more = len(seconds) < FEWEST or (time.perf_counter() - began < EACH_SECONDS and len(seconds) < MOST)
        again = torch.tensor([float(more)], device=device)
        dist.broadcast(again, 0, group=group)
    seconds.sort()
    n = len(seconds)
    return seconds[n // 2], (seconds[3 * n // 4] - seconds[n // 4]) / 2 / max(seconds[n // 2], 1e-12)


def work(rank, ranks, entries, port, device_type, threads, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.set_num_threads(threads)
    device = torch.device(device_type, rank) if device_type == "cuda" else torch.device("cpu")
    if device_type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device_type == "cuda" else "gloo")
    for found in time_here(entries, device):
        if rank == 0:
            queue.put(found)
    dist.destroy_process_group()


def time_here(entries, device):
    """(entry, seconds, spread) or (entry, None, why), on the ranks that are there."""
    rank, groups = dist.get_rank(), {}
    for entry in entries:
        n = entry["devices"]
        if n > dist.get_world_size():
            continue
        if n not in groups:
            groups[n] = dist.new_group(list(range(n)))
        if rank >= n:
            continue
        try:
            yield (entry, *median(run(entry["kind"], entry["bytes"], device, groups[n]), device, groups[n]))
        except (RuntimeError, NotImplementedError, ValueError) as error:
            yield entry, None, (str(error).strip().splitlines() or [""])[0]


def keep(times, found):
    entry, seconds, spread = found
    key = (entry["kind"], entry["devices"], entry["bytes"])
    if seconds is None:
        name = f"{entry['kind']} of {entry['devices']} devices, {entry['bytes']} bytes"
        times.failed[name] = {"key": name, "why": spread}
    else:
        times.collectives[key] = {**entry, "seconds": seconds, "spread": spread}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def time_all(entries, times, device_type, threads):
    """Those that are not known yet, of up to as many ranks as the list wants and there are devices for."""
    wanted = [e for e in entries if (e["kind"], e["devices"], e["bytes"]) not in times.collectives
              and f"{e['kind']} of {e['devices']} devices, {e['bytes']} bytes" not in times.failed]
    here = torch.cuda.device_count() if device_type == "cuda" else os.cpu_count() or 1
    ranks = min(max((e["devices"] for e in wanted), default=0), here)
    if ranks < 2:
        return
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    started = torch.multiprocessing.start_processes(work, (ranks, wanted, free_port(), device_type, threads, queue),
                                                    nprocs=ranks, join=False, start_method="spawn")
    while not started.join(timeout=0.2) or not queue.empty():
        while not queue.empty():
            keep(times, queue.get())
            times.save(at_once=False)
    times.save()
