#!/usr/bin/env python3
"""Launches of Megatron-LM in its own argument parser: it takes the files, with all of its checks, and what it makes of them,
priced by `cleave validate` from the parsed values and by nothing else, is what `export` says of the layout that it reads back.

usage: megatron_parser.py CLEAVE TREE

The launches are those of tests/integration/launches.py.  Wants megatron.training, which is in the package megatron-core
since its release 0.19, and PyTorch; devices are made up.  Exits 77 where they are missing.
"""
import contextlib
import io
import os
import sys
from importlib.machinery import ModuleSpec
from unittest import mock


class MadeUp:
    """The language of what runs on devices, which is not called here, and is not there without any."""

    def find_spec(self, name, path, target=None):
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "triton" else None

    def create_module(self, spec):
        return mock.MagicMock(__version__="3.4.0")

    def exec_module(self, module):
        pass


try:
    import torch

    torch.cuda.get_device_capability = lambda device=None: (10, 0)
    sys.meta_path.append(MadeUp())
    from megatron.core.transformer.enums import LayerType
    from megatron.training import arguments
except ImportError as error:
    print(f"skipped: {error}; pip install --no-deps megatron-core==0.19.2 gives its parser")
    sys.exit(77)

sys.dont_write_bytecode = True
arguments.get_device_arch_version = lambda: 10
# What is the user's, whatever the launch.
OWN = ["--lr", "3e-4", "--train-iters", "10", "--tokenizer-type", "NullTokenizer", "--mock-data", "--transformer-impl", "local"]


def parse(path, devices):
    """Megatron's values; told in its own words where it refuses."""
    with open(path, encoding="utf-8") as stream:
        words = stream.read().split()
    os.environ.update(RANK="0", WORLD_SIZE=str(devices))
    sys.argv, said = ["pretrain_gpt.py", *words, *OWN], io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            args = arguments.parse_args()
            arguments.validate_args(args)
    except (SystemExit, AssertionError, ValueError, RuntimeError) as error:
        sys.exit(f"{path}: Megatron-LM refuses it: {error!r} {said.getvalue()[-500:]}")
    return args


def layers_of(args, stages):
    layout = args.pipeline_model_parallel_layout
    if layout is None:
        return [args.num_layers // stages] * stages
    # layout[rank][virtual stage]; stages go round the ranks.
    return [part.count(LayerType.decoder) for parts in zip(*layout.layout) for part in parts]


def run_of(path, devices):
    """What Megatron does with it."""
    args = parse(path, devices)
    pipeline, virtual = args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size or 1
    if args.sequence_parallel != (args.tensor_model_parallel_size > 1):
        sys.exit(f"{path}: products are shared without sequence parallelism, or the other way round")
    sharding = {"optim_grads": 2, "optim_grads_params": 3}[args.data_parallel_sharding_strategy] if args.use_megatron_fsdp \
        else int(args.use_distributed_optimizer)
    return {"devices": devices, "data": args.data_parallel_size, "tensor": args.tensor_model_parallel_size, "pipeline": pipeline,
            "virtual": virtual, "batch": args.global_batch_size, "micro_batch": args.micro_batch_size,
            "schedule": "interleaved" if virtual > 1 else "1f1b", "layers": layers_of(args, pipeline * virtual),
            "sharding": sharding, "recompute": args.recompute_granularity or "none",
            "precision": "bf16" if args.params_dtype == torch.bfloat16 else "f32", "sequence": args.seq_length}


def main():
    tree = sys.argv[2]
    sys.path[:0] = [os.path.join(tree, "tests", "integration")]
    import launches
    launches.LAUNCHERS = {"megatron": (lambda path: path, run_of)}
    launches.main()


if __name__ == "__main__":
    main()
