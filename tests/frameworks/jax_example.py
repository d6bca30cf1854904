#!/usr/bin/env python3
"""examples/jax_plan.py on four forced host devices, by the commands of docs/jax.md, falls in its loss and shards its weights.
usage: jax_example.py CLEAVE TREE        Exits 77 where there is no JAX.
"""
import os
import re
import subprocess
import sys
import tempfile

try:
    import jax  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

cleave, tree = map(os.path.abspath, sys.argv[1:])
environment = dict(os.environ, PATH=os.path.dirname(cleave) + ":" + os.environ["PATH"], PYTHONPATH=os.path.join(tree, "python"))
with open(os.path.join(tree, "docs", "jax.md"), encoding="utf-8") as stream:
    commands = re.search(r"```\n(cleave search.*?)```", stream.read(), re.S).group(1)
with tempfile.TemporaryDirectory() as folder:
    for name in ("configs", "examples"):
        os.symlink(os.path.join(tree, name), os.path.join(folder, name))
    commands = commands.replace("python3 ", sys.executable + " ")
    done = subprocess.run(["sh", "-ec", commands], cwd=folder, env=environment, capture_output=True, text=True, check=False)
print(done.stdout + done.stderr)
losses = [float(loss) for loss in re.findall(r"step \d+: loss ([0-9.]+)", done.stdout)]
if done.returncode or len(losses) != 5 or losses[-1] >= losses[0] or "'d" not in done.stdout:
    sys.exit("jax_example: the example does not train as its page says")
