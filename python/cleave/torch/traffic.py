"""Counts what a rank sends: with cleave.torch.Traffic() as traffic: loss.backward() ... ; traffic.bytes.

As rings and pairwise exchanges would send it: an all-reduce of n ranks 2 (n - 1) / n of its bytes, a gather or scatter
(n - 1) / n of the whole, an exchange (n - 1) / n of a rank's part; of n ranks all together a broadcast, or a sum for one
of them, n - 1 times its bytes.
"""
import torch
import torch.distributed
from torch.distributed.tensor import DTensor, placement_types
from torch.utils._python_dispatch import TorchDispatchMode

# Of the bytes of the first argument, by name of the operator.
SHARES = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_reduce_": lambda n: 2 * (n - 1) / n,
          "allreduce_": lambda n: 2 * (n - 1) / n, "all_gather_into_tensor": lambda n: n - 1,
          "_allgather_base_": lambda n: (n - 1) / n,  # whose first is what is gathered
          "reduce_scatter_tensor": lambda n: (n - 1) / n, "all_to_all_single": lambda n: (n - 1) / n,
          "shard_dim_alltoall": lambda n: (n - 1) / n, "broadcast_": lambda n: (n - 1) / n,
          "reduce_": lambda n: (n - 1) / n, "send": lambda n: 1, "recv_": lambda n: 0}
DOMAINS = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor", "c10d")


def _group_size(args):
    """Of the group among an operator's arguments: by name, or as an object between others (a reduction's)."""
    for argument in reversed(args):
        try:
            if isinstance(argument, str):
                return torch.distributed.distributed_c10d._resolve_process_group(argument).size()
            if isinstance(argument, torch.ScriptObject):
                return torch.distributed.ProcessGroup.unbox(argument).size()
        except (RuntimeError, ValueError, KeyError):
            continue
    return 1


class Traffic(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.by_kind, self.unknown = {}, set()

    @property
    def bytes(self):
        return sum(self.by_kind.values())

    def _add(self, kind, n_bytes):
        self.by_kind[kind] = self.by_kind.get(kind, 0) + n_bytes

    def __enter__(self):
        self.exchange = placement_types.shard_dim_alltoall
        placement_types.shard_dim_alltoall = self._exchange
        return super().__enter__()

    def __exit__(self, *error):
        placement_types.shard_dim_alltoall = self.exchange
        return super().__exit__(*error)

    def _exchange(self, x, gather_dim, shard_dim, mesh, mesh_dim):
        """Without all-to-all, as in gloo, DTensor gathers all and takes its part: counted as what it stands for."""
        before = dict(self.by_kind)
        result = self.exchange(x, gather_dim, shard_dim, mesh, mesh_dim)
        n = mesh.size(mesh_dim)
        self.by_kind = before
        self._add("exchange", (n - 1) / n * x.numel() * x.element_size())
        return result

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(t, DTensor) for t in types):
            return NotImplemented  # it comes again, in parts
        out = func(*args, **(kwargs or {}))
        domain, name = func.name().split("::")[0], func.name().split("::")[1].split(".")[0]
        if domain in DOMAINS and "wait" not in name and "wrap_tensor" not in name:  # those send nothing
            share, tensors = SHARES.get(name), args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
            if share is None:
                self.unknown.add(name)
            else:
                n_bytes = sum(t.numel() * t.element_size() for t in tensors)
                self._add(name, share(_group_size(args)) * n_bytes)
        return out
