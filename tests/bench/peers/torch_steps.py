#!/usr/bin/env python3
"""A training step of Cleave in f32 and in bf16 beside PyTorch's with autocast to bf16, on one core, in turns.

Models are those that both have by name: ResNet-50 (torchvision's classes), BERT and GPT-2 (transformers', by the same
config.json).  Plain SGD; PyTorch on one thread with its oneDNN, in channels_last for images.  Each is a process of its
own; a figure is the median of its steps but the first, and the best of the rounds, of which none was disturbed by others
by more than a tenth of a processor, or is marked so.  Needs PyTorch, torchvision and transformers.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from others import undisturbed

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "configs", "models")
STEPS = 4
MOST_OTHERS, TRIES = 0.1, 2
TABLE = {  # name: file, batch, length of texts
    "resnet50": ("resnet50.onnx", 4, 0),
    "bert": ("bert_base.json", 2, 128),
    "gpt2": ("gpt2.json", 1, 1024),
}


def make(name, batch, length):
    """A model of PyTorch, its input and what gives a loss of its output."""
    import torch
    from torch.nn import functional as F
    if name == "resnet50":
        import torchvision
        model = torchvision.models.resnet50().to(memory_format=torch.channels_last)
        x = torch.randn(batch, 3, 224, 224).to(memory_format=torch.channels_last)
        targets = torch.randint(1000, (batch,))
        return model, x, lambda out: F.cross_entropy(out.float(), targets)
    import transformers
    with open(os.path.join(MODELS, TABLE[name][0]), encoding="utf-8") as file:
        fields = json.load(file)
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    kind = transformers.AutoModelForMaskedLM if name == "bert" else transformers.AutoModelForCausalLM
    targets = torch.randint(config.vocab_size, (batch * length,))
    return (kind.from_config(config), torch.randint(config.vocab_size, (batch, length)),
            lambda out: F.cross_entropy(out.logits.float().flatten(0, 1), targets))


def peer(name):
    """Prints the seconds of PyTorch's steps."""
    import torch
    torch.set_num_threads(1)
    model, x, loss_of = make(name, *TABLE[name][1:])
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    seconds = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            out = model(x)
        loss_of(out).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"step_seconds": statistics.median(seconds[1:])}))


def seconds_of(command):
    """(of a step, marked where others took more than they may)"""
    def run():
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)["step_seconds"]
    seconds, others = undisturbed(run, MOST_OTHERS, TRIES)
    return seconds, others > MOST_OTHERS


def compare(cleave, rounds, name):
    file, batch, length = TABLE[name]
    ours = [cleave, "run", "--model", os.path.join(MODELS, file), "--batch", str(batch), "--steps", str(STEPS),
            "--json", "--quiet"]
    ours += ["--sequence", str(length)] if length > 0 else []
    commands = [ours, [*ours, "--precision", "bf16"], [sys.executable, __file__, "--peer", cleave, name]]
    taken = [[seconds_of(command) for command in commands] for _ in range(rounds)]
    best = [min(round_[i][0] for round_ in taken) for i in range(len(commands))]
    f32, bf16, torch = best
    disturbed = any(mark for round_ in taken for _, mark in round_)
    print(f"{name:10} {batch:5} {length:6} {f32:9.3f} {bf16:9.3f} {torch:9.3f} {f32 / bf16:10.2f} {bf16 / torch:13.2f}"
          f"{'  disturbed' if disturbed else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cleave", help="the command, as built")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(TABLE)} (default all)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each (default 2)")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = [name for name in given.models if name not in TABLE]
    if unknown:
        parser.error(f"{unknown[0]} is none of {', '.join(TABLE)}")
    if not os.access(given.cleave, os.X_OK) or given.rounds < 1:
        parser.error(f"{given.cleave} is no command" if given.rounds > 0 else "--rounds is below 1")
    if given.peer:
        peer(given.models[0])
        return
    print(f"{'model':10} {'batch':>5} {'length':>6} {'f32 s':>9} {'bf16 s':>9} {'torch s':>9} {'f32 / bf16':>10} "
          f"{'bf16 / torch':>13}")
    for name in given.models or TABLE:
        compare(given.cleave, given.rounds, name)


main()
