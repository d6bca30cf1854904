#!/usr/bin/env python3
"""Writes which parameters the framework's classes have for the configurations that ship.

For each configs/models/NAME.json a file configs/NAME.parameters here: on the first line how many elements all
parameters have together, then a line for each with its shape and its name, as checkpoints have it; those of layers
that are alike on one line, with a star for the layer and how many there are.  What checkpoints have beside
parameters, and nothing trains (biases that balance routers), has lines, too, and is not in the sum.
Needs PyTorch and transformers (made with 2.15.0 and 5.24.0).  The tests only need the files.
usage: make_family_names.py [NAME...]
"""
import glob
import json
import os
import re
import sys

import torch
import transformers

from make_family_oracles import CLASSES, SIDED, TEXTS, TOWERS, checkpoint_name, configuration, is_kept, made, tensors_of

HEADS = {"albert": transformers.AutoModelForMaskedLM, "bert": transformers.AutoModelForMaskedLM,
         "distilbert": transformers.AutoModelForMaskedLM,
         "roberta": transformers.AutoModelForMaskedLM,
         **dict.fromkeys(("deit", "dinov2", "dinov2_with_registers", "vit"), CLASSES),
         **dict.fromkeys(("data2vec-text", "deberta-v2", "electra", "esm", "eurobert", "jina_embeddings_v3", "mpnet", "nomic_bert"),
                         transformers.AutoModelForMaskedLM),
         "modernbert": transformers.AutoModelForMaskedLM, **dict.fromkeys(SIDED, transformers.AutoModelForSeq2SeqLM),
         "whisper": transformers.AutoModelForSpeechSeq2Seq, **TOWERS, **dict.fromkeys(TEXTS)}

# Of functions, whose modules keep them; a bias of zeros; waves for positions.
CONSTANTS = ("act_fn.beta", "act_fn.eps", "final_logits_bias", "embed_positions.weight", "inv_freq")


def shapes_of(fields):
    kind = fields.pop("model_type")
    untied = kind in ("t5", "mt5") and not fields.get("tie_word_embeddings", True)
    with torch.device("meta"):
        config = configuration(kind, fields)
        model = made(HEADS.get(kind, transformers.AutoModelForCausalLM), config)
    model.tie_weights()
    trained = {n: p.requires_grad for n, p in model.named_parameters()}
    named = [(n, p) for n, p in model.named_parameters() if trained[n]]
    shapes = {n: tuple(t.shape) for n, t in tensors_of(kind, named).items()}
    if untied:  # the newest classes tie it again; those of version 4, and the checkpoints, do not
        shapes["lm_head.weight"] = (config.vocab_size, config.d_model)
    saved = model.state_dict()
    kept = {checkpoint_name(kind, n): tuple(b.shape) for n, b in saved.items()
            if is_kept(kind, n) or (n in dict(model.named_buffers()) or not trained.get(n, True)) and not n.endswith(CONSTANTS)}
    return shapes, kept


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in sorted(glob.glob(os.path.join(here, "..", "..", "configs", "models", "*.json"))):
        name = os.path.basename(path).removesuffix(".json")
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        with open(path) as file:
            shapes, kept = shapes_of(json.load(file))
        alike = {}
        for parameter, shape in {**shapes, **kept}.items():
            folded = re.sub(r"\.(blocks?|layers?|h)\.\d+\.", r".\1.*.", parameter, count=1)
            line = "x".join(map(str, shape)) + " " + folded
            alike[line] = alike.get(line, 0) + 1
        elements = sum(torch.Size(shape).numel() for shape in shapes.values())
        with open(os.path.join(here, "configs", name + ".parameters"), "w") as file:
            file.write(f"{elements}\n" + "".join(f"{n} {line}\n" for line, n in sorted(alike.items())))
        print(name, elements)


main()
