"""A traffic matrix as a picture: colours by the logarithm of bytes, lines between HB domains."""

import struct
import zlib
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

from railweave.framework.drawing.canvas import INK, PALE, Canvas
from railweave.framework.model.arrays import Float

SIDE = 512.0
"""Pixels of a side of the picture."""
MOST_CELLS = 256
"""Cells per side of a picture at most; larger matrices are summed into cells of equally many GPUs."""
GREY = 205
"""Brightness, 0 to 255, of lines between HB domains."""
MOST_DOMAINS = 64
"""HB domains up to which lines are drawn between them; more lines would hide the cells."""
STOPS = ((190, 214, 232), (120, 175, 215), (47, 128, 237), (123, 79, 201), (214, 69, 69), (120, 20, 40))
"""From the fewest to the most bytes; no bytes are white."""


def binned(matrix: Float, most: int = MOST_CELLS) -> tuple[Float, int]:
    """The matrix with `step` GPUs per cell (bytes summed), and that step: the smallest with at most `most`
    cells."""
    n = len(matrix)
    step = next(step for step in range(-(-n // most), n + 1) if n % step == 0)
    return matrix.reshape(n // step, step, n // step, step).sum(axis=(1, 3)), step


def scale(matrix: Float) -> tuple[int, int]:
    """Powers of ten that enclose all bytes; (0, 1) when there are none."""
    busy = matrix[matrix > 0]
    if not busy.size:
        return 0, 1
    low, high = floor(log10(float(busy.min()))), ceil(log10(float(busy.max())))
    return low, max(high, low + 1)


def colours(matrix: Float) -> NDArray[np.uint8]:
    """(n, n, 3): red, green, blue of every cell."""
    low, high = scale(matrix)
    with np.errstate(divide="ignore"):
        place = (np.log10(matrix) - low) / (high - low) * (len(STOPS) - 1)
    place = np.clip(np.where(matrix > 0, place, 0.0), 0, len(STOPS) - 1)
    mixed = np.stack(
        [np.interp(place, np.arange(len(STOPS)), channel) for channel in zip(*STOPS, strict=True)], axis=-1
    )
    return np.where((matrix > 0)[..., None], mixed.round(), 255).astype(np.uint8)


def heatmap_svg(matrix: Float, domain: int, title: str, caption: str = "") -> str:
    """An SVG document of `matrix` (bytes, [src, dst]), GPUs in the order of domains of `domain` GPUs."""
    cells, step = binned(matrix)
    n = len(matrix)
    size = SIDE / len(cells)
    canvas = Canvas()
    painted = colours(cells)
    canvas.box((SIDE / 2, SIDE / 2), (SIDE, SIDE), "#ffffff", radius=0)
    for row, column in np.argwhere(cells > 0):
        fill = _hex(painted[row, column])
        canvas.box(
            ((column + 0.5) * size, (row + 0.5) * size),
            (size, size),
            fill,
            fill,
            radius=0,
            width=0,
            title=f"{_span(row, step)} to {_span(column, step)}: {cells[row, column]:.4g} bytes",
        )
    lined = n // domain <= MOST_DOMAINS
    for edge in range(0, n + 1, domain if lined else n):
        at = SIDE * edge / n
        canvas.line([(at, 0), (at, SIDE)], PALE, 0.5)
        canvas.line([(0, at), (SIDE, at)], PALE, 0.5)
    canvas.text((0, -52), title, 16, anchor="start", bold=True)
    canvas.text((0, -32), caption, 11, anchor="start", fill=PALE)
    lines = f"lines between HB domains of {domain}" if lined else f"HB domains of {domain}"
    canvas.text((SIDE / 2, -12), f"receiving GPU, 0 to {n - 1}; {lines}", 11)
    canvas.text((-8, SIDE / 2), "sending GPU", 11, anchor="end")
    _legend(canvas, *scale(cells), step)
    return canvas.document(title)


def _hex(pixel: NDArray[np.uint8]) -> str:
    return "#" + pixel.tobytes().hex()


def _span(cell: int, step: int) -> str:
    return f"GPU {cell}" if step == 1 else f"GPUs {cell * step} to {cell * step + step - 1}"


def _legend(canvas: Canvas, low: int, high: int, step: int) -> None:
    bar = np.logspace(low, high, 64)[::-1]
    left, tall = SIDE + 24, SIDE / 64
    for i, value in enumerate(colours(np.concatenate([bar, [10.0**low, 10.0**high]]))[:64]):
        fill = _hex(value)
        canvas.box((left + 8, (i + 0.5) * tall), (16, tall + 0.3), fill, fill, radius=0, width=0)
    for power in range(low, high + 1):
        y = SIDE * (high - power) / (high - low)
        canvas.text((left + 24, y), f"1e{power}", 10.5, anchor="start", fill=INK)
    unit = "bytes" if step == 1 else f"bytes of {step} x {step} GPUs"
    canvas.text((left, SIDE + 18), unit, 10.5, anchor="start")


def heatmap_png(matrix: Float, domain: int) -> bytes:
    """The same picture without text, as a PNG of 512 or more pixels a side, lines between domains in
    grey."""
    painted = colours(matrix if len(matrix) <= 4 * MOST_CELLS else binned(matrix, 4 * MOST_CELLS)[0])
    zoom = max(1, 512 // len(painted))
    pixels = painted.repeat(zoom, axis=0).repeat(zoom, axis=1)
    step = len(pixels) * domain // len(matrix)
    if step >= 8:
        empty = (pixels == 255).all(axis=2)
        lines = np.zeros_like(empty)
        lines[::step], lines[:, ::step] = True, True
        pixels[lines & empty] = GREY
    return png(pixels)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """An 8-bit RGB image of (height, width, 3). Source: PNG specification (W3C), sections 5 and 11."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows.tobytes())), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
