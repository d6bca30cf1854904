"""A model of your own, planned by Cleave and trained by PyTorch, the loop as ever.
usage: torchrun --nproc-per-node 2 torch_plan.py MACHINE.json
"""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import cleave.torch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.dense = nn.Sequential(nn.Linear(32 * 16 * 16, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, x):
        return self.dense(self.features(x).flatten(1))


dist.init_process_group()
torch.manual_seed(0)  # all ranks begin with the same weights, and are given the same batch
model, x, t = Net(), torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))

file = os.path.join(tempfile.gettempdir(), f"net.{os.environ['MASTER_PORT']}.plan.json")
if dist.get_rank() == 0:  # one rank plans for all
    cleave.torch.plan(model, (x,), devices=dist.get_world_size(), machine=sys.argv[1], file=file)
dist.barrier()
model = cleave.torch.apply(model, file)

optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), t)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if dist.get_rank() == 0:
        print(f"step {step}: loss {loss.item():.4f}")
if dist.get_rank() == 0:
    print({name: tuple(map(str, p.placements)) for name, p in model.named_parameters() if name.endswith("weight")})
dist.barrier()  # what is under way when a group goes may hold the interpreter up
dist.destroy_process_group()
