"""Memory that a step takes from the system anew.

Where a step begins gradients are freed, and as they lie at the end of the heap together, malloc of glibc gives them back to
the system, once they are more than twice the largest piece that was freed before.  So each page of them is a fault in
each step.  Under a plan malloc keeps what it gets, as PyTorch's own allocator does with a GPU's memory.  A model without
one takes pages, which an operator that is repeated by itself finds of the repeat before, or does not, as memory
happens to lie: of an embedding .3 ms and 2.1, in turns.  So while operators are timed malloc keeps what it gets, too, and
pages are timed by themselves.
"""
import ctypes
import time

import torch

LARGEST_KEPT = 32 << 20  # of pieces: one that is larger comes from the system by itself, and goes back
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # <malloc.h>
TIMES = 5


def keep():
    """Has malloc keep what it gets from now on, in this process; is it one that can?"""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return mallopt(MMAP_THRESHOLD, LARGEST_KEPT) == 1 and mallopt(TRIM_THRESHOLD, (1 << 31) - 1) == 1


def go_back(freed):
    """Do pieces of so many bytes, freed one after the other, go back to the system, besides those that do in any case?"""
    freed = [n for n in freed if n <= LARGEST_KEPT]
    return sum(freed) > 2 * max(freed, default=0)


def seconds_per_byte():
    """Of pages that are written for the first time, more than of others."""
    more = []
    for _ in range(TIMES):
        took, piece = [], torch.empty(2 * LARGEST_KEPT, dtype=torch.uint8)
        for _ in range(2):
            began = time.perf_counter()
            piece.fill_(1)
            took.append(time.perf_counter() - began)
        del piece
        more.append((took[0] - took[1]) / (2 * LARGEST_KEPT))
    return max(sorted(more)[TIMES // 2], 0.0)


def price(freed):
    """Seconds per byte of gradients, in a step without a plan of a model with gradients of so many bytes."""
    return seconds_per_byte() if go_back(freed) else 0.0


def of_gradients(gradients, price):
    """Seconds that pages of gradients of so many bytes take."""
    return sum(n * price for n in gradients if n <= LARGEST_KEPT)
