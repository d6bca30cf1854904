"""torch.utils.checkpoint under a plan: what runs again in backward runs as it did in the forward.

Functions between modules are a mode (functions.Functions) within a model's forward, and backward is outside of it."""
import contextlib
import copy
import functools

import torch.utils.checkpoint as checkpoint
from torch.overrides import _get_current_function_mode_stack

from .functions import Functions


def _modes():
    return [mode for mode in _get_current_function_mode_stack() if isinstance(mode, Functions)]


def _as_now(function):
    """The function in the modes of now, wherever it is called."""
    modes = [copy.copy(mode) for mode in _modes()]

    @functools.wraps(function)
    def run(*arguments, **keywords):
        with contextlib.ExitStack() as stack:
            for mode in () if _modes() else modes:
                stack.enter_context(copy.copy(mode))
            return function(*arguments, **keywords)
    return run if modes else function


# What `checkpoint` calls, by which people may have it from elsewhere; newer versions of PyTorch call the first.
_GENERATORS = [name for name in ("_checkpoint_without_reentrant_generator_impl", "_checkpoint_without_reentrant_generator")
               if hasattr(checkpoint, name)]
_usual, _Usual = getattr(checkpoint, _GENERATORS[0]), checkpoint.CheckpointFunction


def _generator(function, *arguments, **keywords):
    return _usual(_as_now(function), *arguments, **keywords)


class _Reentrant(_Usual):
    @classmethod
    def apply(cls, function, *arguments, **keywords):
        return _Usual.apply(_as_now(function), *arguments, **keywords)


def register():
    """From now on torch.utils.checkpoint knows plans; of all other models it does what it did."""
    setattr(checkpoint, _GENERATORS[0], _generator)
    checkpoint.CheckpointFunction = _Reentrant
