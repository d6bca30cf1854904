"""A model of your own in stages of two ranks each, planned by Cleave: micro-batches by PyTorch's pipelines.
usage: torchrun --nproc-per-node 4 torch_stages.py MACHINE.json
"""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn

import cleave.torch

dist.init_process_group()
torch.manual_seed(0)  # all ranks begin with the same weights, and are given the same batch
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
x, t = torch.randn(64, 256), torch.randint(0, 10, (64,))

file = os.path.join(tempfile.gettempdir(), f"stages.{os.environ['MASTER_PORT']}.plan.json")
if dist.get_rank() == 0:  # one rank plans for all
    cleave.torch.plan(model, (x,), devices=dist.get_world_size(), machine=sys.argv[1], file=file,
                      options=("--stages", 2, "--micro-batches", 4))
dist.barrier()
model = cleave.torch.apply(model, file)  # this rank's stage, on the mesh of its group
step = cleave.torch.steps(model)

optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(5):
    optimizer.zero_grad()
    loss = step(x, t)  # forward and backward of all micro-batches; the same loss on every rank
    optimizer.step()
    if dist.get_rank() == 0:
        print(f"step {i}: loss {loss.item():.4f}")
print(f"rank {dist.get_rank()} has {', '.join(name for name, _ in model.named_parameters())}")
dist.barrier()  # what is under way when a group goes may hold the interpreter up
dist.destroy_process_group()
