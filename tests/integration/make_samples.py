"""Samples of digits-like pictures that can be learned, as files of the same numbers in several formats.

    make_samples.py FOLDER N     writes x.npy, y.npy (int32) and xy.safetensors: N pictures 1 x 28 x 28 of 10 classes
"""

import array
import json
import random
import struct
import sys
from pathlib import Path

folder, n = Path(sys.argv[1]), int(sys.argv[2])
draw = random.Random(n)
prototypes = random.Random(0)
classes = [[prototypes.gauss(0, 1) for _ in range(784)] for _ in range(10)]
labels = [draw.randrange(10) for _ in range(n)]
pictures = array.array("f")
for label in labels:
    pictures.extend(value + draw.gauss(0, 0.5) for value in classes[label])


def write_npy(name, descr, shape, data):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    (folder / name).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


x, y = pictures.tobytes(), array.array("q", labels).tobytes()
write_npy("x.npy", "<f4", (n, 1, 28, 28), x)
write_npy("y.npy", "<i4", (n,), array.array("i", labels).tobytes())
text = json.dumps(
    {
        "input": {"dtype": "F32", "shape": [n, 1, 28, 28], "data_offsets": [0, len(x)]},
        "targets": {"dtype": "I64", "shape": [n], "data_offsets": [len(x), len(x) + len(y)]},
    }
).encode()
(folder / "xy.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + x + y)
