"""Weights in and out of `cleave run`, read by nothing of Cleave's: weights.py CLEAVE TREE

What --save writes is read here by the published format of safetensors, and what models hold by the
wire format of protobuf and the field numbers of onnx.proto; values are those of the oracles, which
another program computed.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile

cleave, tree = map(os.path.abspath, sys.argv[1:3])
oracles = os.path.join(tree, "tests/data/oracles")
work = tempfile.TemporaryDirectory()
failures = 0


def fail(text):
    global failures
    failures += 1
    print("FAILED:", text, file=sys.stderr)


def at_work(name):
    return os.path.join(work.name, name)


# ---- safetensors: eight bytes of header length, a JSON header, the data ----------------------------


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}; the data must be covered without holes or overlaps."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length).decode("utf-8"))
        data = file.read()
    header.pop("__metadata__", None)
    end = 0
    for name in sorted(header, key=lambda name: header[name]["data_offsets"]):
        begin, stop = header[name]["data_offsets"]
        if begin != end:
            fail(f"{path}: {name} starts at {begin}, not at {end}")
        end = stop
    if end != len(data):
        fail(f"{path}: {len(data)} bytes of data, but tensors end at {end}")
    return {
        name: (entry["dtype"], tuple(entry["shape"]), data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def floats(raw):
    return struct.unpack(f"<{len(raw) // 4}f", raw)


# ---- ONNX: messages are fields of (number << 3 | kind), kind 0 a varint, kind 2 a length and bytes --

GRAPH, INITIALIZER, DIMS, DATA_TYPE, NAME, RAW_DATA, EXTERNAL_DATA, DATA_LOCATION = 7, 5, 1, 2, 8, 9, 13, 14


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def fields(data):
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0:
            value, at = read_varint(data, at)
        else:
            length, at = {1: (8, at), 5: (4, at)}.get(tag & 7) or read_varint(data, at)
            value, at = data[at : at + length], at + length
        yield tag >> 3, tag & 7, value


def field(number, kind, value):
    head = varint(number << 3 | kind)
    if kind == 0:
        return head + varint(value)
    return head + (varint(len(value)) if kind == 2 else b"") + value


def change(data, number, edit):
    """The message again, with `edit` applied to every field of that number."""
    return b"".join(field(n, k, edit(v) if n == number else v) for n, k, v in fields(data))


def read_tensor(data):
    """Name, data type, shape and raw bytes."""
    name, data_type, shape, raw = "", 0, [], None
    for number, kind, value in fields(data):
        if number == NAME:
            name = value.decode()
        elif number == DATA_TYPE:
            data_type = value
        elif number == RAW_DATA:
            raw = value
        elif number == DIMS and kind == 0:
            shape.append(value)
        elif number == DIMS:
            at = 0
            while at < len(value):
                extent, at = read_varint(value, at)
                shape.append(extent)
    return name, data_type, tuple(shape), raw


def initializers(path):
    """{name: (dtype, shape, bytes)} of those that hold floats."""
    with open(path, "rb") as file:
        graph = next(v for n, _, v in fields(file.read()) if n == GRAPH)
    tensors = (read_tensor(v) for n, _, v in fields(graph) if n == INITIALIZER)
    return {name: ("F32", shape, raw) for name, data_type, shape, raw in tensors if data_type == 1}


def rewrite(path, to, edit):
    """Copies a model with every initializer changed by edit(bytes of its TensorProto)."""
    with open(path, "rb") as file:
        data = file.read()
    with open(to, "wb") as file:
        file.write(change(data, GRAPH, lambda graph: change(graph, INITIALIZER, edit)))


# ---- runs --------------------------------------------------------------------------------------------


def run(*words):
    return subprocess.run([cleave, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def model_of(oracle):
    return os.path.join(oracles, oracle + ".onnx")


def train(oracle, model, *words):
    """Saved tensors after a run on two devices; learning rates next to zero leave weights as they were."""
    saved = at_work("saved.safetensors")
    if os.path.exists(saved):
        os.remove(saved)
    layout = at_work(oracle + ".layout.json")
    done = run("run", "--model", model, "--layout", layout, "--save", saved, "--quiet", *words)
    if done.returncode != 0:
        fail(f"cleave run {model}: exit {done.returncode}: {done.stderr}")
        return {}
    return read_safetensors(saved)


def expect_error(patterns, *words):
    done = run(*words)
    lines = done.stderr.splitlines()
    if done.returncode != 2 or len(lines) != 1:
        fail(f"cleave {' '.join(words)}: exit {done.returncode}: {done.stderr}")
    for pattern in patterns:
        if pattern not in done.stderr:
            fail(f"no \"{pattern}\" in: {done.stderr}")


def expect_same(what, got, expected):
    """Names, types, shapes and bytes."""
    if sorted(got) != sorted(expected):
        fail(f"{what}: tensors {sorted(got)}, not {sorted(expected)}")
    for name in set(got) & set(expected):
        if got[name] != expected[name]:
            fail(f"{what}: {name} is {got[name][:2]}, {floats(got[name][2])[:4]}..., "
                 f"not {expected[name][:2]}, {floats(expected[name][2])[:4]}...")


def expect_near(what, got, expected):
    for name, (dtype, shape, raw) in expected.items():
        if got.get(name, ("", ()))[:2] != (dtype, shape):
            fail(f"{what}: {name} is {got.get(name, ('missing',))[:2]}, not {(dtype, shape)}")
            continue
        worst = max((abs(x - y) - 1e-4 * abs(y) for x, y in zip(floats(got[name][2]), floats(raw))), default=0)
        if worst > 1e-5:
            fail(f"{what}: {name} is off by {worst}")


still = ["--steps", 1, "--lr", 1e-30]


def check_oracle(oracle):
    machine = os.path.join(tree, "configs/machines/two-cores.json")
    model = model_of(oracle)
    with open(os.path.join(oracles, oracle + ".json")) as file:
        about = json.load(file)
    batch = about["data_inputs"][0]["shape"][0]
    done = run("search", "--model", model, "--batch", batch, "--machine", machine, "--method", "random", "--seed", 4,
               "-o", at_work(oracle + ".layout.json"))
    if done.returncode != 0:
        return fail(f"{oracle}: {done.stderr}")
    weights = initializers(model)
    trained = {name: weights[name] for name in about["trainable"]}
    of = lambda tensors: {name: tensors[name] for name in trained if name in tensors}
    size = ["--batch", batch]

    # What the model starts from is what is saved.  (Running statistics move at any learning rate.)
    saved = train(oracle, model, *size, *still)
    if sorted(saved) != sorted(weights):
        fail(f"{oracle}: saved {sorted(saved)}, not {sorted(weights)}")
    expect_same(f"{oracle}, initial", of(saved), trained)

    # After three steps on the oracle's data: another program's weights.
    data = os.path.join(oracles, oracle + ".io.safetensors")
    saved = train(oracle, model, *size, "--steps", 3, "--lr", 0.1, "--data", data)
    expected = read_safetensors(os.path.join(oracles, oracle + ".expect.safetensors"))
    expect_near(f"{oracle}, trained", saved,
                {name[7:]: value for name, value in expected.items() if name.startswith("after3/")})

    # --weights, from either format, goes before what the model has.
    other = {name: (dtype, shape, struct.pack(f"<{len(raw) // 4}f", *(x + 1 for x in floats(raw))))
             for name, (dtype, shape, raw) in weights.items()}
    path = at_work("other.safetensors")
    write_safetensors(path, dict(reversed(list(other.items())), unused=("F32", [2], b"12345678")))
    of_file = train(oracle, model, *size, *still, "--weights", path)
    expect_same(f"{oracle}, safetensors", of(of_file), of(other))

    def put_other(data):
        name, data_type, _, raw = read_tensor(data)
        return change(data, RAW_DATA, lambda _: other[name][2] if data_type == 1 else raw)

    path = at_work("other.onnx")
    rewrite(model, path, put_other)
    of_file = train(oracle, model, *size, *still, "--weights", path)
    expect_same(f"{oracle}, onnx", of(of_file), of(other))


# ---- an index of shards, half as long elements, and a base model's names: as checkpoints have them --


def bf16(raw):
    """The upper half of each f32, and what that is."""
    halves = b"".join(raw[i + 2 : i + 4] for i in range(0, len(raw), 4))
    return halves, b"".join(b"\0\0" + halves[i : i + 2] for i in range(0, len(halves), 2))


def f16(raw):
    halves = struct.pack(f"<{len(raw) // 4}e", *floats(raw))
    return halves, struct.pack(f"<{len(raw) // 4}f", *struct.unpack(f"<{len(halves) // 2}e", halves))


def check_shards(prefix="transformer."):
    weights = read_safetensors(os.path.join(oracles, "family_gpt2.weights.safetensors"))
    size = ["--batch", 4, "--sequence", 6]
    config = os.path.join(oracles, "family_gpt2.json")
    machine = os.path.join(tree, "configs/machines/two-cores.json")
    run("search", "--model", config, *size, "--machine", machine, "--method", "random", "--seed", 4,
        "-o", at_work("shards.layout.json"))
    kinds = [("F32", lambda raw: (raw, raw)), ("BF16", bf16), ("F16", f16)]
    shards, expected, where = [{}, {}, {}], {}, {}
    for i, (name, (_, shape, raw)) in enumerate(sorted(weights.items())):
        raw = b"".join(struct.pack("<f", edge) for edge in (6e-8, -65504.0, 1.0, 1e-5)) + raw[16:] if i % 5 == 2 else raw
        kind, shorten = kinds[i % 3]
        short, value = shorten(raw)
        expected[name] = ("F32", shape, value)
        shards[i % 2][name.removeprefix(prefix)] = (kind, shape, short)
        where[name.removeprefix(prefix)] = f"part-{i % 2}.safetensors"
    for i in range(2):
        write_safetensors(at_work(f"part-{i}.safetensors"), shards[i])

    def index(**changes):
        with open(at_work("model.safetensors.index.json"), "w") as file:
            json.dump({"metadata": {"total_size": 1}, "weight_map": {**where, **changes}}, file)
        return "--weights", at_work("model.safetensors.index.json")

    expect_same("shards", train("shards", config, *size, *still, *index()), expected)
    first = sorted(where)[0]
    there = ["run", "--model", config, *size]
    expect_error([first, "part-1.safetensors"], *there, *index(**{first: "part-1.safetensors"}))
    expect_error(["part-9.safetensors"], *there, *index(**{first: "part-9.safetensors"}))
    expect_error(["../part", first], *there, *index(**{first: "../part-0.safetensors"}))
    del where[first]
    expect_error([prefix + first], *there, *index())
    # With the base's word in a file, names are whole: nothing is looked for without it.
    write_safetensors(at_work("part-0.safetensors"), {**shards[0], prefix + "x": ("F32", [1], b"1234")})
    expect_error([prefix + first], *there, *index(**{prefix + "x": "part-0.safetensors"}))


# ---- optimizers: two steps, from what single steps of plain descent say of the gradients -----------


def check_optimizers(oracle, rate=0.1, momentum=0.9):
    model, data = model_of(oracle), os.path.join(oracles, oracle + ".io.safetensors")
    words = ["--batch", "8", "--data", data]
    steps = lambda n, *more: {name: floats(raw) for name, (_, _, raw) in
                              train(oracle, model, *words, "--steps", n, *more).items()}
    begin = {name: floats(raw) for name, (_, _, raw) in initializers(model).items()}

    def gradients(tensors):
        path = at_work("from.safetensors")
        write_safetensors(path, {name: ("F32", initializers(model)[name][1], struct.pack(f"<{len(x)}f", *x))
                                 for name, x in tensors.items()})
        after = steps(1, "--lr", 1, "--weights", path)
        return {name: [x - y for x, y in zip(tensors[name], after[name])] for name in tensors}

    def expect(what, got, expected, counts=lambda name, k: True):
        for name in begin:
            n = sum(counts(name, k) for k in range(len(begin[name])))
            worst = max((abs(got[name][k] - expected[name][k]) for k in range(len(begin[name])) if counts(name, k)),
                        default=0)
            if worst > 1e-5 or n == 0:
                fail(f"{oracle}, {what}: {name} is off by {worst}, of {n} elements")

    # Momentum: v1 = g1, v2 = momentum v1 + g2.
    first = gradients(begin)
    once = steps(1, "--lr", rate, "--momentum", momentum)
    expect("momentum once", once, {name: [p - rate * g for p, g in zip(begin[name], first[name])] for name in begin})
    second = gradients(once)
    expect("momentum twice", steps(2, "--lr", rate, "--momentum", momentum),
           {name: [p - rate * (momentum * g1 + g2) for p, g1, g2 in zip(once[name], first[name], second[name])]
            for name in begin})

    # Adam: m1 = 0.1 g1, v1 = 0.001 g1^2, m2 = 0.9 m1 + 0.1 g2 and so on, divided by 1 - 0.9^t and 1 - 0.999^t.
    # Where a gradient is next to nothing its sign is that of rounding.
    large = lambda name, k: min(abs(first[name][k]), abs(second[name][k])) > 1e-3
    sign = lambda g: (g > 0) - (g < 0)
    once = steps(1, "--optimizer", "adam", "--lr", rate)
    second = gradients(once)
    expect("adam once", once, {name: [p - rate * sign(g) for p, g in zip(begin[name], first[name])] for name in begin},
           large)
    expect("adam twice", steps(2, "--optimizer", "adam", "--lr", rate),
           {name: [p - rate * ((0.09 * g1 + 0.1 * g2) / 0.19)
                   / (((0.000999 * g1 * g1 + 0.001 * g2 * g2) / 0.001999) ** 0.5 + 1e-8)
                   for p, g1, g2 in zip(once[name], first[name], second[name])] for name in begin}, large)


# ---- PyTorch, where it is installed -----------------------------------------------------------------


def check_pytorch():
    """What was saved, as parameters of a PyTorch module, gives the outputs of --forward."""
    try:
        import torch
    except ImportError:
        print("skipped: the comparison with PyTorch, which is not installed for", sys.executable)
        return
    data = os.path.join(oracles, "tiny_mlp.io.safetensors")
    size = ["--batch", 8, "--data", data]
    saved = train("tiny_mlp", model_of("tiny_mlp"), *size, "--steps", 2, "--lr", 0.1)
    weights = at_work("trained.safetensors")
    write_safetensors(weights, saved)
    outputs = train("tiny_mlp", model_of("tiny_mlp"), *size, "--forward", "--weights", weights)
    tensor = lambda entry: torch.frombuffer(bytearray(entry[2]), dtype=torch.float32).reshape(entry[1])
    layers = [torch.nn.Linear(n, k) for n, k in [(16, 32), (32, 24), (24, 5)]]
    module = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.Tanh(), layers[2])
    names = {f"{2 * i}.{part}": f"fc{i + 1}.{part}" for i in range(3) for part in ["weight", "bias"]}
    module.load_state_dict({key: tensor(saved[name]) for key, name in names.items()})
    with torch.no_grad():
        expected = module(tensor(read_safetensors(data)["x"]))
    if not torch.allclose(tensor(outputs["logits"]), expected, rtol=1e-4, atol=1e-6):
        fail(f"PyTorch computes {expected} from the saved weights, not {tensor(outputs['logits'])}")


# ---- external data -------------------------------------------------------------------------------------


def externalise(model, to, location, data_path, entries=None):
    """The same model with its initializers in another file, each at some offset."""
    blob = bytearray(b"\xff" * 3)

    def edit(data):
        raw = read_tensor(data)[3]
        about = {"location": location, "offset": len(blob), "length": len(raw), **(entries or {})}
        blob.extend(raw)
        kept = b"".join(field(n, k, v) for n, k, v in fields(data) if n != RAW_DATA)
        for key, value in about.items():
            if value is not None:
                kept += field(EXTERNAL_DATA, 2, field(1, 2, key.encode()) + field(2, 2, str(value).encode()))
        return kept + field(DATA_LOCATION, 0, 1)

    rewrite(model, to, edit)
    if data_path:
        os.makedirs(os.path.dirname(data_path), exist_ok=True)
        with open(data_path, "wb") as file:
            file.write(blob)


def check_external():
    model, folder = model_of("tiny_mlp"), at_work("model")
    os.makedirs(folder)
    path = os.path.join(folder, "external.onnx")
    size = ["--batch", 8]
    expected = initializers(model)
    externalise(model, path, "data/weights.bin", os.path.join(folder, "data/weights.bin"))
    expect_same("external data", train("tiny_mlp", path, *size, *still), expected)
    expect_same("external weights", train("tiny_mlp", model, *size, *still, "--weights", path), expected)
    externalise(model, path, "data/weights.bin", None, {"length": None})
    expect_same("external data without a length", train("tiny_mlp", path, *size, *still), expected)

    # From the folder of the model itself, by a plain name.
    here = os.getcwd()
    os.chdir(folder)
    if run("show", "external.onnx").returncode != 0:
        fail("a model without a folder in its path")
    os.chdir(here)

    with open(at_work("outside.bin"), "wb") as file:
        file.write(b"\0" * 100000)
    os.symlink(at_work("outside.bin"), os.path.join(folder, "link.bin"))
    os.symlink(work.name, os.path.join(folder, "up"))
    os.symlink("data/weights.bin", os.path.join(folder, "inner.bin"))
    externalise(model, path, "inner.bin", None)
    expect_same("a link within the folder", train("tiny_mlp", path, *size, *still), expected)
    for location, entries, patterns in [
        (at_work("outside.bin"), {}, ["outside.bin", "within"]),
        ("../outside.bin", {}, ["../outside.bin", "within"]),
        ("data/../../outside.bin", {}, ["within"]),
        ("..", {}, ["within"]),
        ("link.bin", {}, ["link.bin", "outside"]),
        ("up/outside.bin", {}, ["outside"]),
        ("missing.bin", {}, ["missing.bin", "not there"]),
        ("data", {}, ["regular"]),
        ("", {}, ["location"]),
        ("data/weights.bin", {"offset": 99999999}, ["99999999", "weights.bin"]),
        ("data/weights.bin", {"offset": "9223372036854775807"}, ["9223372036854775807"]),
        ("data/weights.bin", {"offset": -4}, ["-4"]),
        ("data/weights.bin", {"offset": "4k"}, ["4k"]),
        ("data/weights.bin", {"length": 12}, ["12"]),
        ("data/weights.bin", {"length": ""}, ["length"]),
        ("data/weights.bin", {"location": None}, ["location"]),
        ("data/weights.bin", {"compression": "zip"}, ["compression"]),
    ]:
        externalise(model, path, location, None, entries)
        expect_error(["external.onnx", "fc", *patterns], "show", path)


# ---- weights that do not fit -----------------------------------------------------------------------------


def check_errors():
    model, path = model_of("tiny_mlp"), at_work("bad.safetensors")
    weights = initializers(model)
    words = ["run", "--model", model, "--batch", "8", "--layout", at_work("tiny_mlp.layout.json"), "--weights"]
    write_safetensors(path, {name: value for name, value in weights.items() if "bias" not in name})
    expect_error([path, "fc1.bias, fc2.bias, fc3.bias"], *words, path)
    write_safetensors(path, {**weights, "fc1.weight": ("F32", (16, 32), weights["fc1.weight"][2])})
    expect_error([path, "fc1.weight", "16 x 32", "32 x 16"], *words, path)
    write_safetensors(path, {**weights, "fc1.bias": ("I64", (16,), b"\0" * 128)})
    expect_error([path, "fc1.bias", "I64"], *words, path)
    expect_error(["tiny_cnn.onnx", "has no tensor"], *words, model_of("tiny_cnn"))
    expect_error(["nowhere.onnx"], *words, at_work("nowhere.onnx"))


for name in ["tiny_mlp", "tiny_cnn"]:
    check_oracle(name)
check_optimizers("tiny_mlp")
check_shards()
check_pytorch()
check_external()
check_errors()
sys.exit(failures > 0)
