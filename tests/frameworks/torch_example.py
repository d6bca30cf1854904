#!/usr/bin/env python3
"""examples/torch_plan.py on two ranks, as torchrun starts it, falls in its loss and shards its weights.
usage: torch_example.py CLEAVE TREE
"""
import os
import re
import subprocess
import sys

cleave, tree = sys.argv[1:]
common = dict(os.environ, CLEAVE=cleave, PYTHONPATH=os.path.join(tree, "python"), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
              MASTER_PORT=str(28000 + os.getpid() % 1000), OMP_NUM_THREADS="1")
common.pop("PYTHONHOME", None)  # the interpreter's own wrapper sets it again
python = os.environ.get("PYTHON_EXEC", sys.executable)
command = [python, os.path.join(tree, "examples", "torch_plan.py"), os.path.join(tree, "configs", "machines", "two-cores.json")]
ranks = [subprocess.Popen(command, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE,
                          text=True) for rank in range(2)]
out = "".join(rank.communicate(timeout=240)[0] for rank in ranks)
print(out)
losses = [float(loss) for loss in re.findall(r"step \d+: loss ([0-9.]+)", out)]
if any(rank.returncode for rank in ranks) or len(losses) != 5 or losses[-1] >= losses[0] or not re.search(r"S(hard)?\((dim=)?\d", out):
    sys.exit("torch_example: the example does not train as its page says")
