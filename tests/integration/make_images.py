"""Pictures whose classes can be learned, as PNG files in a folder for each class.

    make_images.py FOLDER CLASSES COUNT SIDE SEED

A class is the direction of its waves; their place, length, colours and the noise over them are drawn.
"""

import math
import random
import struct
import sys
import zlib
from pathlib import Path

folder, (n_classes, count, side, seed) = Path(sys.argv[1]), map(int, sys.argv[2:6])
draw = random.Random(seed)


def png(rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


for i in range(count):
    label = i % n_classes
    angle = math.pi * (label + draw.uniform(-0.25, 0.25)) / n_classes
    pace = 2 * math.pi / draw.uniform(3.5, 6)
    phase = draw.uniform(0, 2 * math.pi)
    low, high = [[draw.uniform(0, 255) for _ in range(3)] for _ in range(2)]
    rows = []
    for y in range(side):
        row = []
        for x in range(side):
            wave = 0.5 + 0.5 * math.sin(pace * (x * math.cos(angle) + y * math.sin(angle)) + phase)
            for c in range(3):
                value = low[c] + (high[c] - low[c]) * wave + draw.gauss(0, 40)
                row.append(min(255, max(0, round(value))))
        rows.append(row)
    path = folder / f"class{label}" / f"{i:05}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(rows))
