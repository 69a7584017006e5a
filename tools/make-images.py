#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the images of tests/images and what Pillow reads in them.

tests/images/pillow.safetensors holds, for each file, "NAME:CHANNELS" with 1, 3
and 4 channels, u8 [height, width, channels], and resized ones.

usage: python3 -m venv v && v/bin/pip install pillow numpy
       v/bin/python tools/make-images.py [--check]
  --check  change nothing; say what this Pillow reads otherwise than what is
           there, and fail if there is something
"""

import json
import pathlib
import struct
import sys
import zlib

import numpy as np
from PIL import Image

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "images"
PASSES = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2),
          (0, 1, 2, 2), (1, 0, 2, 1)]


def photo(height, width, channels):
    """Smooth colors, some noise, and an edge."""
    draw = np.random.default_rng(height * 1000 + width * 10 + channels)
    y, x = np.mgrid[0:height, 0:width][..., None] / 8.0
    shift = np.arange(channels)
    wave = np.sin(x + shift) + np.cos(y * 1.3 - shift)
    pixels = 128 + 50 * wave + draw.normal(0, 8, (height, width, channels))
    pixels[height // 2:, : width // 3] += 70
    return np.uint8(np.clip(pixels, 0, 255))


def chunk(kind, data):
    body = kind + data
    check = struct.pack(">I", zlib.crc32(body))
    return struct.pack(">I", len(data)) + body + check


def rows(samples, bits):
    """Rows of samples as PNG packs them; their filters take turns 0, 1, 2."""
    packed = []
    for row in samples:
        flat = row.reshape(-1).astype(np.uint32)
        if bits == 16:
            packed.append(flat.astype(">u2").tobytes())
        elif bits == 8:
            packed.append(flat.astype(np.uint8).tobytes())
        else:
            text = "".join(format(v, f"0{bits}b") for v in flat)
            text += "0" * (-len(text) % 8)
            packed.append(bytes(int(text[i:i + 8], 2)
                                for i in range(0, len(text), 8)))
    step = max(1, samples.shape[2] * bits // 8)
    out, above = b"", bytes(len(packed[0]))
    for number, row in enumerate(packed):
        kind = number % 3
        before = [bytes(len(row)), bytes(step) + row[:-step], above][kind]
        out += bytes([kind]) + bytes((a - b) % 256 for a, b in zip(row, before))
        above = row
    return out


def write_png(name, samples, bits=8, color=None, palette=None, clear=None,
              interlaced=False, extra=b""):
    height, width, channels = samples.shape
    if color is None:
        color = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    if interlaced:
        parts = [samples[y::dy, x::dx] for y, x, dy, dx in PASSES]
        data = b"".join(rows(p, bits) for p in parts if p.size)
    else:
        data = rows(samples, bits)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(
        ">IIBBBBB", width, height, bits, color, 0, 0, int(interlaced)))
    out += extra
    if palette is not None:
        out += chunk(b"PLTE", palette.astype(np.uint8).tobytes())
    if clear is not None:
        out += chunk(b"tRNS", clear)
    packed = zlib.compress(data, 9)
    half = len(packed) // 2  # In two chunks.
    out += chunk(b"IDAT", packed[:half]) + chunk(b"IDAT", packed[half:])
    (FOLDER / name).write_bytes(out + chunk(b"IEND", b""))


def write_pngs():
    kinds = ((1, "gray"), (2, "gray_alpha"), (3, "rgb"), (4, "rgba"))
    for channels, kind in kinds:
        pixels = photo(13, 11, channels)
        write_png(f"{kind}.png", pixels)
        write_png(f"{kind}_interlaced.png", pixels, interlaced=True)
        low = photo(11, 13, channels).reshape(pixels.shape)
        wide = pixels.astype(np.uint32) * 256 + low
        write_png(f"{kind}_16.png", wide, 16)
    for bits in (1, 2, 4):
        write_png(f"gray_{bits}.png", photo(13, 11, 1) >> (8 - bits), bits)
    colors = photo(16, 16, 3).reshape(256, 3)
    for bits in (1, 2, 4, 8):
        index = photo(13, 11, 1) >> (8 - bits)
        write_png(f"palette_{bits}.png", index, bits, 3, colors[:1 << bits])
    write_png("palette_clear.png", photo(13, 11, 1) >> 4, 4, 3, colors[:16],
              bytes([0, 100, 255, 7]), True)
    gray = photo(13, 11, 1)
    write_png("gray_clear.png", gray,
              clear=struct.pack(">H", int(gray[3, 4, 0])))
    rgb = photo(13, 11, 3)
    write_png("rgb_clear.png", rgb,
              clear=struct.pack(">3H", *(int(v) for v in rgb[5, 6])))
    # A gamma, which is not applied.
    write_png("rgb_gamma.png", rgb,
              extra=chunk(b"gAMA", struct.pack(">I", 100000)) +
              chunk(b"tEXt", b"Comment\0of no use"))
    write_png("one_pixel.png", photo(1, 1, 3), interlaced=True)


def write_jpegs():
    color, gray = photo(21, 19, 3), photo(21, 19, 1)[..., 0]
    for name, pixels, options in (
            ("gray", gray, {}),
            ("444", color, {"subsampling": 0}),
            ("422", color, {"subsampling": 1}),
            ("420", color, {"subsampling": 2}),
            ("420_restart", color,
             {"subsampling": 2, "restart_marker_blocks": 1}),
            ("progressive", color, {"subsampling": 2, "progressive": True}),
            ("gray_progressive", gray, {"progressive": True}),
            ("rgb", color, {"keep_rgb": True}),
            ("one_pixel", color[:1, :1], {}),
    ):
        Image.fromarray(pixels).save(FOLDER / f"{name}.jpg", quality=85,
                                     **options)
    Image.fromarray(photo(21, 19, 4), "CMYK").save(FOLDER / "cmyk.jpg",
                                                   quality=85)


def read(path, channels):
    """What Pillow makes of the file, u8 [h, w, channels]."""
    image = Image.open(path)
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    if channels == 1 and image.format == "JPEG" and image.mode == "RGB":
        if path.name != "rgb.jpg":
            image.draft("L", image.size)  # The brightness that is in the file.
    if image.mode.startswith("I"):
        image = Image.fromarray(np.uint8(np.array(image) >> 8))
    pixels = np.array(image.convert(mode))
    return pixels.reshape(pixels.shape[:2] + (channels,))


RESIZED = [(8, 8), (40, 33), (21, 7), (5, 30), (1, 1), (20, 19)]


def resize(image, height, width):
    """Rows first, whatever this Pillow thinks is quicker."""
    wide = image.resize((width, image.height), Image.BILINEAR)
    pixels = np.array(wide.resize((width, height), Image.BILINEAR))
    return pixels.reshape(height, width, -1)


def references():
    arrays = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in (".png", ".jpg"):
            for channels in (1, 3, 4):
                arrays[f"{path.name}:{channels}"] = read(path, channels)
    for name in ("420.jpg", "gray.jpg"):
        image = Image.open(FOLDER / name)
        part = image.crop((3, 2, 3 + 14, 2 + 11))
        for height, width in RESIZED:
            size = f"{height}x{width}"
            arrays[f"{name}:{size}"] = resize(image, height, width)
            arrays[f"{name}:box:{size}"] = resize(part, height, width)
    return arrays


def to_safetensors(arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        bytes_ = array.tobytes()
        header[name] = {"dtype": "U8", "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def from_safetensors(data):
    size = struct.unpack("<Q", data[:8])[0]
    arrays = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        flat = np.frombuffer(data, np.uint8, int(np.prod(entry["shape"])),
                             8 + size + entry["data_offsets"][0])
        arrays[name] = flat.reshape(entry["shape"])
    return arrays


def main():
    place = FOLDER / "pillow.safetensors"
    if "--check" not in sys.argv:
        FOLDER.mkdir(exist_ok=True)
        write_pngs()
        write_jpegs()
        place.write_bytes(to_safetensors(references()))
        return 0
    old, new = from_safetensors(place.read_bytes()), references()
    wrong = [name for name in old.keys() | new.keys()
             if name not in old or name not in new
             or not np.array_equal(old[name], new[name])]
    for name in sorted(wrong):
        print(f"{name}: this Pillow reads it otherwise")
    print(f"{len(new)} images, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
