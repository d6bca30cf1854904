#!/usr/bin/env python3
"""Launches of torchtitan in its own loader: it takes the files, and has every value that they say.

usage: torchtitan_loader.py CLEAVE TREE

The files are those of tests/integration/launches.py.  Wants torchtitan 0.2 (its releases after that read no such
files), PyTorch and tyro; exits 77 where they are missing.
"""
import contextlib
import glob
import io
import os
import subprocess
import sys
import tempfile
import tomllib

try:
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


def main():
    cleave, tree = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(tree, "tests", "integration", "launches.py"), cleave, tree, folder],
                       check=True, stdout=subprocess.DEVNULL)
        files = sorted(glob.glob(os.path.join(folder, "*.torchtitan")))
        if not files:
            sys.exit("there are no launches of torchtitan")
        n = sum(map(compare, files))
    print(f"{len(files)} files of torchtitan, {n} values: all as its loader reads them")


if __name__ == "__main__":
    main()
