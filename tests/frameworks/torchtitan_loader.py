#!/usr/bin/env python3
"""Launches of torchtitan in its own loader: it takes the files, has every value that they say, and what it has, priced by
`cleave validate`, is what `export` says of the layout that it reads back.

usage: torchtitan_loader.py CLEAVE TREE

The files are those of tests/integration/launches.py.  Wants torchtitan 0.2 (its releases after that read no such
files), PyTorch and tyro; exits 77 where they are missing.
"""
import contextlib
import dataclasses
import io
import os
import sys
import tomllib
import types

try:
    # The loader alone: what the package itself imports wants a newer PyTorch than that does.
    sys.modules["torchtitan"] = types.ModuleType("torchtitan")
    sys.modules["torchtitan"].__path__ = [os.path.join(path, "torchtitan") for path in sys.path]
    from torchtitan.config import ConfigManager, JobConfig  # noqa: F401, the second is what 0.3 lacks
except ImportError as error:
    print(f"skipped: {error}; pip install --no-deps torchtitan==0.2.2 tyro gives its loader")
    sys.exit(77)


def load(path):
    """What is read of a file by sections, told in the loader's words where it refuses."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return ConfigManager().parse_args(["--job.config_file", path])
    except (SystemExit, ValueError, TypeError) as error:
        sys.exit(f"{path}: torchtitan refuses it: {error} {said.getvalue()}")


def compare(path):
    with open(path, "rb") as stream:
        written = tomllib.load(stream)
    read, n = load(path), 0
    for section, values in written.items():
        for key, value in values.items():
            there = getattr(getattr(read, section), key)
            if there != value:
                sys.exit(f"{path}: {section}.{key} is {value}, and torchtitan reads {there}")
            n += 1
    return n


def read(path):
    """All that torchtitan has then, what the file leaves out, too."""
    compared.append(compare(path))
    said = dataclasses.asdict(load(path))
    if said["parallelism"]["pipeline_parallel_degree"] == 1:  # torchtitan reads it of pipelines alone
        del said["parallelism"]["pipeline_parallel_microbatch_size"]
    said["parallelism"]["module_fqns_per_model_part"] = said["parallelism"]["module_fqns_per_model_part"] or [[]]
    return said


compared = []


def main():
    sys.path[:0] = [os.path.join(sys.argv[2], "tests", "integration")]
    import launches
    launches.LAUNCHERS = {"torchtitan": (read, launches.run_of_torchtitan)}
    launches.main()
    print(f"{len(compared)} files of torchtitan, {sum(compared)} values: all as its loader reads them")


if __name__ == "__main__":
    main()
