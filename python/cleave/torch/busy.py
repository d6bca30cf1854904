"""Processes that do what is being timed, on and on: ranks of one host share its memory and its caches, so a piece of work
takes longer beside others than alone."""
import contextlib
import os
import random
import sys

import torch
import torch.multiprocessing


def _work(i, path, threads, compiled, each):
    from . import calibrate
    torch.set_num_threads(threads)
    listed = calibrate.read_list(path)
    timer = calibrate.Timer(torch.device("cpu"), listed, compiled, each)
    work = [(entry, timer.operator) for entry in listed["operators"] if entry.get("wanted", True)] or \
        [(entry, timer.copies) for entry in listed["copies"]]
    rng, parent = random.Random(i), os.getppid()
    while os.getppid() == parent:  # it ends with the process that times
        entry, run = rng.choice(work)
        with contextlib.suppress(*calibrate.CANNOT):
            run(entry)


@contextlib.contextmanager
def others(n, path, threads, compiled, each):
    """Within this `n` other processes are busy with the wanted operators of a list of kernels."""
    if n <= 0:
        yield
        return
    # A Python that is run by a script of its own says so, as tests/frameworks/setup makes one.
    torch.multiprocessing.set_executable(os.environ.get("PYTHON_EXEC", sys.executable))
    context = torch.multiprocessing.get_context("spawn")
    started = [context.Process(target=_work, args=(i, path, threads, compiled, each), daemon=True) for i in range(n)]
    try:
        for process in started:
            process.start()
        yield
    finally:
        for process in started:
            process.terminate()
            process.join()
