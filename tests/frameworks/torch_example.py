#!/usr/bin/env python3
"""The examples of docs/torch.md as torchrun starts them: the loss falls, and ranks have what the page says.
usage: torch_example.py CLEAVE TREE
"""
import os
import re
import subprocess
import sys

cleave, tree = sys.argv[1:]
# Example, ranks, machine, what else it prints; in stages of two ranks each a rank has its own stage's parameters.
EXAMPLES = [("torch_plan.py", 2, "two-cores", r"S(hard)?\((dim=)?\d"),
            ("torch_stages.py", 2, "k80-16x4", r"rank 1 has .*4\.bias"),
            ("torch_stages.py", 4, "k80-16x4", r"rank 3 has .*4\.bias")]
env = dict(os.environ, CLEAVE=cleave, PYTHONPATH=os.path.join(tree, "python"), OMP_NUM_THREADS="1")
env.pop("PYTHONHOME", None)  # the interpreter's own wrapper sets it again
python = os.environ.get("PYTHON_EXEC", sys.executable)
for i, (example, n, machine, words) in enumerate(EXAMPLES):
    command = [python, os.path.join(tree, "examples", example), os.path.join(tree, "configs", "machines", machine + ".json")]
    env.update(WORLD_SIZE=str(n), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(28000 + (os.getpid() + i) % 1000))
    ranks = [subprocess.Popen(command, env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE,
                              text=True) for rank in range(n)]
    out = "".join(rank.communicate(timeout=240)[0] for rank in ranks)
    print(out)
    losses = [float(loss) for loss in re.findall(r"step \d+: loss ([0-9.]+)", out)]
    if any(rank.returncode for rank in ranks) or len(losses) != 5 or losses[-1] >= losses[0] or not re.search(words, out):
        sys.exit(f"torch_example: {example} does not train on {n} ranks as its page says")
