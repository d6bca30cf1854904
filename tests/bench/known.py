"""Types of arguments, for argparse: what is not known ends a bench with 2 and a line that lists what is."""
import argparse
import os

MODELS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "configs", "models")


def one_of(known):
    def parse(text):
        if text not in known:
            raise argparse.ArgumentTypeError(f"{text}: none of {', '.join(known)}")
        return text
    return parse


def listed(parse):
    """What stands between commas."""
    return lambda text: [parse(part) for part in text.split(",")]


def positive(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text}: a whole number above 0 is wanted")
    return int(text)


def model_and_batch(text):
    """MODEL:BATCH of a model that ships."""
    model, _, batch = text.partition(":")
    one_of(sorted(name[:-len(".onnx")] for name in os.listdir(MODELS) if name.endswith(".onnx")))(model)
    return f"{model}:{positive(batch)}"


def program(text):
    if not os.path.isfile(text) or not os.access(text, os.X_OK):
        raise argparse.ArgumentTypeError(f"{text}: no program: build Cleave first")
    return text
