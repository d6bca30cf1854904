"""Memory of gradients, which a step takes from the system anew.

Where a step begins gradients are freed, and as they lie at the end of the heap together, malloc of glibc gives them back to
the system, once they are more than twice the largest piece that was freed before.  So each page of them is a fault in
each step.  An operator that is repeated by itself finds the pages of the repeat before, or does not, as memory
happens to lie: of an embedding .3 ms and 2.1, in turns.  So while operators are timed malloc keeps what it gets, and
pages are timed by themselves.
"""
import ctypes
import time

import torch

from . import under_way

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
    """Do pieces of so many bytes, freed one after the other, go back to the system?"""
    return sum(freed) > 2 * max((n for n in freed if n <= LARGEST_KEPT), default=0)


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
    """Seconds per byte of gradients that a rank has for itself, and of those that ranks sum up, of a model with gradients
    of so many bytes.  The latter go in vectors, which are taken and freed, too, and are the largest pieces there are."""
    alone, summed = go_back(freed), go_back(freed + under_way.vectors(freed))
    each = seconds_per_byte() if alone or summed else 0.0
    return each * alone, 2 * each * summed


def of_gradients(gradients, prices):
    """Seconds that pages of gradients take, of (bytes, are they summed up by ranks)."""
    return sum(n * prices[is_sum] for n, is_sum in gradients if n <= LARGEST_KEPT)
