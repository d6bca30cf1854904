#!/usr/bin/env python3
"""Modules that people call otherwise than a plan has them: on gloo ranks here, each trains as on one device.

usage: torch_calls.py CLEAVE TREE

Plans are written by hand, their words drawn.  The plan's model has samples, tokens and channels as a dimension each.  Here
samples and tokens are one dimension, or another of one element lies between; positions are looked up; a bias is tied to a
name that the plan has not; a module shapes what it gives by a size that it knows; keys have fewer heads than there are
ranks; of a norm over groups the plan knows what follows it; a function is given tensors by name, others multiply blocks
that are uneven; a model is known by its config.  A module is given its input by name, turns it before it does what the plan knows,
or has a table and is given nothing; a convolution is a function of a module's weight; a function reads a parameter that is
cut between steps.  Tables that do to themselves what parts can't, and weights
that a hook makes, are refused.  Three steps of SGD in double: to 1e-10.
Exits 77 where there is no PyTorch.
"""
import contextlib
import copy
import json
import os
import random
import sys
import tempfile

from torch_plans import TOLERANCE, Apart, Kept, train  # exits 77 without PyTorch

import torch
import torch.nn.functional as F
from torch import nn

import ranks as gloo
from drawn import MACHINE
from llama_config import LLAMA
from models import Llama

PLANS, RANKS, BATCH, LENGTH, WIDTH, WORDS = 16, 2, 4, 5, 8, 12


class Transposed(nn.Module):
    """GPT-2's: its weight is [in, out], and what it gives is as wide as it says."""

    def __init__(self):
        super().__init__()
        self.width = WIDTH
        self.weight, self.bias = nn.Parameter(torch.randn(WIDTH, WIDTH) / 3), nn.Parameter(torch.randn(WIDTH))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], self.width)


class Attention(nn.Module):
    """Two heads that share their keys and values."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH // 2), nn.Linear(WIDTH, WIDTH // 2)

    def forward(self, x):
        q, k, v = (y.view(*x.shape[:2], -1, WIDTH // 2).transpose(1, 2) for y in (self.query(x), self.key(x), self.value(x)))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).reshape(x.shape)


class Turned(nn.LayerNorm):
    """A norm of channels that come before what they are of."""

    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class Distances(nn.Module):
    """A table that knows what is looked up."""

    def __init__(self):
        super().__init__()
        self.table, self.at = nn.Parameter(torch.randn(WORDS, WIDTH)), torch.arange(LENGTH).flip(0)

    def forward(self):
        return self.table[self.at]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.turned, self.distances, self.conv = Turned(WIDTH), Distances(), nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.offsets = nn.Parameter(torch.randn(WORDS, WIDTH))
        self.tokens, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.wide, self.attention, self.between, self.norm = Transposed(), Attention(), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.flat, self.head, self.own = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WORDS), nn.Parameter(torch.randn(WORDS))
        self.head.bias, self.groups = self.own, nn.GroupNorm(2, WIDTH)
        self.square = nn.Parameter(torch.randn(WIDTH, WIDTH) / 3)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(LENGTH, device=ids.device)[None])
        x = self.flat(input=self.norm(x.reshape(-1, WIDTH))).view(x.shape) + self.distances() + self.offsets[self.distances.at]
        x = x + F.conv1d(self.turned(x.transpose(1, 2)), self.conv.weight, self.conv.bias, padding=1, groups=WIDTH).transpose(1, 2)
        x = x + self.between(x.unsqueeze(1)).squeeze(1)
        x = x + F.linear(x, self.square) @ self.square
        x = self.attention(self.groups(self.wide(x).transpose(1, 2)).transpose(1, 2))
        turn = torch.ones(len(ids), LENGTH, LENGTH, dtype=x.dtype).tril()
        return self.head(turn.new_ones(len(ids), 1, WIDTH).baddbmm(batch1=turn, batch2=x)).flatten(0, 1)


def draw(rng, kind, transposed=False, table=False, bias=True):
    """What one module of a plan does: cut by samples, tokens, columns, what is summed, or repeated."""
    own = {"norm": "nt", "Conv": "n"}.get(kind, "ntkc")
    axis = rng.choice([*own, None])
    columns, rows = ("S1", "S0") if transposed or table else ("S0", "S1")
    weight = {"k": columns, "c": rows}.get(axis, "R")
    given = {"n": "S0", "t": "S1", "c": "R" if table else "S2"}.get(axis, "R")
    gives = {"n": "S0", "t": "S1", "k": "S2", "c": "P"}.get(axis, "R")
    if kind == "Add":  # of which the plan knows the sum
        axis = None if axis == "c" else axis
        weight, given = {"k": "S1", "t": "S0"}.get(axis, "R"), {"n": "S0", "t": "S1", "k": "S2"}.get(axis, "R")
        gives = given
    parameters = {"weight": [weight], **({"bias": ["S0" if axis == "k" else "R"]} if bias and not table else {})}
    return {"operator": kind, "type": kind, "axes": [axis], "rank": 3, "input": [given], "output": [gives],
            "then": [rng.choice(["R", "S0", "S1", "S2"]) if gives == "P" else gives], "parameters": parameters}


def make_plan(rng):
    heads = rng.choice(["h", None])
    words = ["S1" if heads else "R"]
    modules = {"tokens": draw(rng, "Gather", table=True), "positions": draw(rng, "Add", table=True),
               "wide": draw(rng, "MatMul", transposed=True), "between": draw(rng, "MatMul"), "norm": draw(rng, "norm"),
               "turned": draw(rng, "norm"), "distances": draw(rng, "Gather", table=True), "conv": draw(rng, "Conv"),
               "flat": draw(rng, "MatMul"), "head": draw(rng, "MatMul", bias=False)}
    word = rng.choice(["S0", "S1", "S2", "R"])
    modules["groups"] = {"operator": "Mul", "type": "Mul", "axes": [None if word == "R" else word], "rank": 3, "input": [word],
                         "output": [word], "then": [word], "parameters": {own: ["S0" if word == "S1" else "R"] for own in ("weight", "bias")}}
    modules["distances"]["parameters"] = {"table": modules["distances"]["parameters"]["weight"]}
    stored = {name: {"shape": [WORDS, WIDTH], "stored": [rng.choice(["R", "S0", "S1", "@1"])]} for name in ("offsets", "distances.table")}
    attention = {"operator": "attention", "type": "Attention", "axes": [heads], "input": words, "output": words, "then": words}
    return {"cleave_plan": 1, "for": "torch", "model": {"file": "drawn"}, "mesh": [RANKS], "modules": modules,
            "functions": {"attention": attention}, "loss": None, "parameters": stored, "lost": []}


def work(files):
    import cleave.torch
    torch.manual_seed(1)
    model, ids, targets = Model().double(), torch.randint(WORDS, (BATCH, LENGTH)), torch.randint(WORDS, (BATCH * LENGTH,))
    first, after, ok = Kept(), Kept(), True
    losses, _ = train(copy.deepcopy(model), (ids,), targets, contextlib.nullcontext, first, after)
    for file in files:
        gradients, parameters = Apart(first), Apart(after)
        found, _ = train(cleave.torch.apply(copy.deepcopy(model), file), (ids,), targets, contextlib.nullcontext, gradients,
                         parameters)
        off = [(max(abs(a - b) for a, b in zip(found, losses)), "loss"), gradients.result(), parameters.result()]
        if not all(by <= TOLERANCE for by, _ in off):
            print(f"{file}: {off}", flush=True)
            ok = False
    return ok and refuses(cleave, model, files[0])


def refuses(cleave, model, file):
    """Tables that write over themselves, or count what is looked up, would do so in parts; hooks that make a weight would see it
    whole."""
    said = []
    for replaced in ({"tokens": nn.Embedding(WORDS, WIDTH, max_norm=1.0)}, {"tokens": nn.Embedding(WORDS, WIDTH, scale_grad_by_freq=True)},
                     {"flat": nn.utils.spectral_norm(nn.Linear(WIDTH, WIDTH))}):
        other = copy.deepcopy(model)
        for name, module in replaced.items():
            setattr(other, name, module)
        try:
            cleave.torch.apply(other, file)
        except cleave.CleaveError as error:
            said.append(str(error))
    whats = ("tokens has max_norm", "tokens has scale_grad_by_freq", "flat has torch.nn.utils.spectral_norm")
    return [what in line for what, line in zip(whats, said)] == [True, True, True]


class Config:
    """As transformers' models have one."""

    def to_json_string(self):
        return json.dumps(LLAMA)


def plan_by_config(cleave, folder):
    """A model that says by what config.json it is known need not be written as ONNX."""
    machine = os.path.join(folder, "machine.json")
    with open(machine, "w", encoding="utf-8") as stream:
        json.dump(MACHINE, stream)
    model, ids = Llama(), torch.randint(64, (BATCH, LENGTH))
    model.config = Config()
    plan = cleave.torch.plan(model, (ids,), devices=RANKS, machine=machine)
    assert plan.model["file"].endswith("config.json") and plan.modules["lm_head"].rank == 3, plan
    assert cleave.torch.measure(model, lambda: None, steps=1, inputs=(ids,), machine=machine).predicted > 0


def main():
    _, os.environ["CLEAVE"], tree = sys.argv
    sys.path[:0] = [os.path.join(tree, "python")]
    import cleave.torch  # once, before ranks are forked
    with tempfile.TemporaryDirectory() as folder:
        plan_by_config(cleave, folder)
        files = [os.path.join(folder, f"{i}.plan.json") for i in range(PLANS)]
        for i, file in enumerate(files):
            with open(file, "w", encoding="utf-8") as stream:
                json.dump(make_plan(random.Random(i)), stream)
        if not gloo.all_succeed(work, RANKS, files):
            sys.exit(1)
    print(f"{PLANS} plans in PyTorch {torch.__version__}: all as one device")


main()
