"""Cleave's plans in your own program: cleave.torch needs PyTorch, cleave.jax needs JAX, this needs neither."""
from .command import CleaveError, run
from .plan import Plan, load

__all__ = ["CleaveError", "Plan", "load", "run"]
