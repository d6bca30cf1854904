#!/usr/bin/env python3
"""A training step of Cleave beside PyTorch's on one core or several, in turns: eager, for images with channels last too, and
by --compiled as torch.compile has it, which takes minutes before its first step.

Images are torchvision's classes, exported as they train; BERT and GPT-2 are transformers', by the same config.json; the
LSTM is two layers of torch.nn's, byte_gpt that of configs/models.  Plain SGD, --threads each (one), and if these are more our step by
one thread, too.  In f32, or by --bf16 with autocast against --precision bf16.  Every step time is the median of a process's steps but the first; every round runs all sides, and its ratio is ours
over PyTorch's.  Of --rounds ratios the median is printed with their range, against each side of PyTorch, and the load.
--before COMMAND is another build of ours, which then has a column, too.  --processor compares the processor time of a step, for
machines that others work on; of one thread.  Needs PyTorch, torchvision, transformers, onnx.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
MODELS = os.path.join(ROOT, "configs", "models")
sys.path[:0] = [os.path.join(ROOT, "tests", "bench"), os.path.join(ROOT, "tests", "frameworks"),
                os.path.join(ROOT, "python")]
import others

TABLE = {  # name: of what, batch, length of texts; ours alone: no PyTorch
    "alexnet": ("torchvision", 16, 0), "vgg16": ("torchvision", 2, 0), "resnet50": ("torchvision", 4, 0),
    "densenet121": ("torchvision", 4, 0), "mobilenet_v2": ("torchvision", 8, 0), "bert": ("bert_base.json", 2, 128),
    "gpt2": ("gpt2.json", 1, 512), "lstm": ("lstm", 16, 32), "byte_gpt": ("byte_gpt", 32, 64),
    "rnntc": ("rnntc.onnx", 64, 0), "nmt": ("nmt.onnx", 64, 0),
}
VOCABULARY, WIDTH = 10000, 512


def is_ours_alone(name):
    return TABLE[name][0].endswith(".onnx")


def make(name, batch=0):
    """A model of PyTorch, its input, and what gives a loss of its output.  The batch is the table's where none is given."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.layers = nn.Embedding(VOCABULARY, WIDTH), nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)
            self.head = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, ids):
            return self.head(self.layers(self.table(ids))[0]).flatten(0, 1)

    of, own, length = TABLE[name]
    batch = batch or own
    if of == "torchvision":
        import torchvision
        targets = torch.randint(1000, (batch,))
        return (getattr(torchvision.models, name)(), torch.randn(batch, 3, 224, 224),
                lambda out: F.cross_entropy(out.float(), targets))
    if of == "lstm":
        targets = torch.randint(VOCABULARY, (batch * length,))
        return (Lstm(), torch.randint(VOCABULARY, (batch, length)), lambda out: F.cross_entropy(out.float(), targets))
    if of == "byte_gpt":
        import models
        targets = torch.randint(256, (batch * length,))
        return (models.Language(2, 128, 4, 256, length), torch.randint(256, (batch, length)),
                lambda out: F.cross_entropy(out.float(), targets))
    import transformers
    with open(os.path.join(MODELS, of), encoding="utf-8") as file:
        fields = json.load(file)
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    kind = transformers.AutoModelForMaskedLM if name == "bert" else transformers.AutoModelForCausalLM
    targets = torch.randint(config.vocab_size, (batch * length,))
    return (kind.from_config(config), torch.randint(config.vocab_size, (batch, length)),
            lambda out: F.cross_entropy(out.logits.float().flatten(0, 1), targets))


def peer(name, side, given):
    """Prints the seconds of PyTorch's step."""
    steps, threads, bf16, clock = given.steps, given.threads, given.bf16, time.process_time if given.processor else time.perf_counter
    import torch
    torch.set_num_threads(threads)
    model, x, loss_of = make(name)
    if side == "channels-last":
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    if side == "compiled":
        model = torch.compile(model)
    seconds = []
    for _ in range(steps):
        begin = clock()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            out = model(x)
        loss_of(out).backward()
        optimizer.step()
        seconds.append(clock() - begin)
    print(json.dumps({"processor_seconds" if given.processor else "step_seconds": statistics.median(seconds[1:])}))


def seconds_of(command, given):
    environment = {**os.environ, "OMP_NUM_THREADS": str(given.threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    said = json.loads(done.stdout)
    return said["processor_seconds" if given.processor else "step_seconds"]


def ours(name, folder):
    """The words for our model."""
    of, batch, length = TABLE[name]
    if of in ("torchvision", "lstm", "byte_gpt"):
        import cleave.torch
        file, (model, x, _) = os.path.join(folder, name + ".onnx"), make(name)
        cleave.torch.export(model, [x], file)
    else:
        file = os.path.join(MODELS, of)
    sequence = ["--sequence", str(length)] if file.endswith(".json") else []
    return ["--model", file, "--batch", str(batch), *sequence]


def sides_of(given, name, folder):
    """What is run in turns: (label, command)."""
    words = [*ours(name, folder), "--steps", str(given.steps), "--json", "--quiet"]
    words += ["--precision", "bf16"] if given.bf16 else []
    shared = ["--device-threads", str(given.threads)] if given.threads > 1 else []
    found = [("ours", [given.cleave, "run", *words, *shared])]
    if shared:
        found.append(("one thread", [given.cleave, "run", *words]))
    if given.before:
        found.append(("before", [given.before, "run", *words, *shared]))
    peers = [] if is_ours_alone(name) else ["eager", "channels-last"] if TABLE[name][0] == "torchvision" else ["eager"]
    peers += ["compiled"] if peers and given.compiled else []
    again = [sys.executable, os.path.abspath(__file__), given.cleave, name, "--steps", str(given.steps),
             "--threads", str(given.threads)]
    again += ["--bf16"] if given.bf16 else []
    again += ["--processor"] if given.processor else []
    return found + [(side, [*again, "--peer", side]) for side in peers]


def compare(given, name, folder):
    sides, watch = sides_of(given, name, folder), others.Watch()
    taken = [[seconds_of(command, given) for _, command in sides] for _ in range(given.rounds)]
    parts = [f"ours {1e3 * statistics.median(row[0] for row in taken):8.1f} ms"]
    for i, (label, _) in list(enumerate(sides))[1:]:
        ratios = [row[0] / row[i] for row in taken]
        parts.append(f"{label} {1e3 * statistics.median(row[i] for row in taken):8.1f} ms, ratio "
                     f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"{name:13} {';  '.join(parts)};  others took {watch.others():.1f} processors", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cleave", help="the command, as built")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(TABLE)} (default all)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (default 5)")
    parser.add_argument("--steps", type=int, default=4, help="of each turn, of which the first does not count (default 4)")
    parser.add_argument("--threads", type=int, default=1, help="of each side (default 1)")
    parser.add_argument("--bf16", action="store_true", help="multiply in bf16")
    parser.add_argument("--processor", action="store_true", help="compare processor time; of one thread")
    parser.add_argument("--compiled", action="store_true", help="beside torch.compile, too; needs a C++ compiler")
    parser.add_argument("--before", metavar="COMMAND", help="another build of cleave, in turns with the others")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    given = parser.parse_intermixed_args()
    unknown = [name for name in given.models if name not in TABLE]
    if unknown:
        parser.error(f"{unknown[0]} is none of {', '.join(TABLE)}")
    if given.rounds < 1 or given.steps < 2 or given.threads < 1:
        parser.error("--rounds or --threads is below 1, or --steps below 2")
    if given.processor and given.threads != 1:
        parser.error("--processor is of one thread")
    if given.peer:
        peer(given.models[0], given.peer, given)
        return
    for command in [given.cleave] + ([given.before] if given.before else []):
        if not os.access(command, os.X_OK):
            parser.error(f"{command} is no command")
    print(f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.models or TABLE:
            compare(given, name, folder)


if __name__ == "__main__":
    main()
