"""Ranks over gloo, as processes of a test."""
import datetime
import faulthandler
import os
import sys
import tempfile
import traceback

import torch
import torch.distributed as dist
import torch.multiprocessing

LIMIT = 200  # seconds of a rank, below those of a test


def _work(rank, function, ranks, store, limit, arguments):
    if limit:
        faulthandler.dump_traceback_later(limit, exit=True)  # a rank that waits for ever says where
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=limit or 1800))
    ok = False
    try:
        ok = function(*arguments)
        dist.barrier()
    except Exception:
        traceback.print_exc()
    # The group is not destroyed: before 2.8 PyTorch waits there, with the interpreter's lock, for its threads to drop tensors,
    # for which they need that lock (pytorch/pytorch#154976).
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if ok else 1)


def all_succeed(function, ranks, *arguments, limit=LIMIT):
    """Calls the function on so many ranks, for at most so many seconds (0: for ever); does it give true on all of them?"""
    with tempfile.TemporaryDirectory() as folder:
        try:
            torch.multiprocessing.start_processes(_work, (function, ranks, os.path.join(folder, "store"), limit, arguments),
                                                  nprocs=ranks, start_method="fork")
        except torch.multiprocessing.ProcessExitedException:
            return False
    return True
