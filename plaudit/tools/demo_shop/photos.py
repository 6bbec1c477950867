"""Photos that customers of the demo shop add to their reviews: drawn, the same ones for everybody."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from io import BytesIO
from math import cos, pi, sin
from random import Random
from typing import Final

from PIL import Image, ImageChops, ImageDraw, ImageFilter

Colour = tuple[int, int, int]
Point = tuple[float, float]

_WIDTH: Final = 1_600
_HEIGHT: Final = 1_200
_SIZE: Final = (1_000, 750)
_QUALITY: Final = 86

_SKIES: Final[Sequence[tuple[Colour, Colour, Colour]]] = (
    ((58, 98, 148), (214, 226, 232), (40, 70, 82)),
    ((64, 66, 110), (248, 178, 126), (44, 38, 66)),
    ((96, 142, 164), (246, 232, 204), (38, 74, 66)),
    ((34, 46, 84), (232, 140, 130), (28, 28, 52)),
    ((120, 168, 196), (236, 242, 240), (52, 88, 72)),
)
"""The sky above and at the horizon, and what is near."""

_ROOMS: Final[Sequence[tuple[Colour, Colour]]] = (
    ((226, 218, 204), (156, 112, 76)),
    ((196, 208, 206), (120, 84, 60)),
    ((222, 206, 196), (88, 70, 60)),
    ((208, 214, 222), (178, 142, 104)),
)
"""A wall and a table."""

_GLAZES: Final[Sequence[Colour]] = ((70, 112, 128), (92, 122, 104), (176, 108, 84), (84, 92, 124))
_LEATHERS: Final[Sequence[Colour]] = ((128, 78, 44), (96, 64, 46), (110, 92, 56))


def photo(kind: str, number: int) -> bytes:
    """A photo that goes with a kind of product, as JPEG."""
    chance = Random(f"plaudit-photo-{kind}-{number}")  # noqa: S311 - everybody gets the same photos
    match kind:
        case "camera":
            scene = _landscape(chance) if chance.random() < 0.65 else _camera_on_table(chance)
        case "boot":
            scene = _boot_on_trail(chance)
        case _:
            scene = _teapot_on_table(chance)
    out = BytesIO()
    scene.resize(_SIZE, Image.Resampling.LANCZOS).save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


def _mixed(one: Colour, other: Colour, part: float) -> Colour:
    r, g, b = (round(a + (z - a) * part) for a, z in zip(one, other, strict=True))
    return r, g, b


def _fade(top: Colour, bottom: Colour, size: tuple[int, int]) -> Image.Image:
    column = Image.linear_gradient("L").resize((1, size[1])).resize(size, Image.Resampling.NEAREST)
    return Image.composite(Image.new("RGB", size, bottom), Image.new("RGB", size, top), column)


def _curve(points: Sequence[Point]) -> list[Point]:
    """A closed line through the points (Catmull-Rom)."""
    line: list[Point] = []
    count = len(points)
    for at in range(count):
        p0, p1, p2, p3 = (points[(at + step) % count] for step in (-1, 0, 1, 2))
        for step in range(12):
            t = step / 12
            weights = (-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3)
            x, y = (sum(w * p[axis] for w, p in zip(weights, (p0, p1, p2, p3), strict=True)) / 2 for axis in (0, 1))
            line.append((x, y))
    return line


def _cut_out(shape: Sequence[Point], margin: int, strength: int) -> tuple[Image.Image, tuple[int, int]]:
    """A mask of the shape with a margin around it, and its place."""
    xs, ys = [x for x, _ in shape], [y for _, y in shape]
    left, top = int(min(xs)) - margin, int(min(ys)) - margin
    mask = Image.new("L", (int(max(xs)) + margin - left + 1, int(max(ys)) + margin - top + 1), 0)
    ImageDraw.Draw(mask).polygon([(x - left, y - top) for x, y in shape], fill=strength)
    return mask, (left, top)


def _soft(scene: Image.Image, shape: Sequence[Point], colour: Colour, strength: int, blur: float) -> None:
    """A shadow or a light with soft edges."""
    mask, place = _cut_out(shape, int(blur * 3), strength)
    scene.paste(Image.new("RGB", mask.size, colour), place, mask.filter(ImageFilter.GaussianBlur(blur)))


def _solid(scene: Image.Image, shape: Sequence[Point], colour: Colour, light: float = 0.35) -> None:
    """A body lit from the upper left."""
    mask, place = _cut_out(shape, 1, 255)
    shade = _fade(_mixed(colour, (255, 250, 240), light), _mixed(colour, (10, 10, 20), 0.45), mask.size)
    row = (
        Image.linear_gradient("L")
        .rotate(90)
        .resize((mask.size[0], 1))
        .point([min(255, 150 + v // 2) for v in range(256)])
    )
    side = row.convert("RGB").resize(mask.size, Image.Resampling.NEAREST)
    scene.paste(ImageChops.multiply(shade, side), place, mask)


def _oval(x: float, y: float, width: float, height: float) -> list[Point]:
    return [(x + width / 2 * cos(2 * pi * at / 90), y + height / 2 * sin(2 * pi * at / 90)) for at in range(90)]


def _ridge(chance: Random, height: float, roughness: float) -> list[Point]:
    """A line of mountains, by midpoints."""
    line = [height + chance.uniform(-roughness, roughness) for _ in range(5)]
    while len(line) < 300:
        roughness *= 0.52
        between = [(a + b) / 2 + chance.uniform(-roughness, roughness) for a, b in itertools.pairwise(line)]
        line = [each for pair in zip(line, between, strict=False) for each in pair] + [line[-1]]
    step = _WIDTH / (len(line) - 1)
    return [(at * step, y) for at, y in enumerate(line)]


def _landscape(chance: Random, horizon: float = 0.62) -> Image.Image:
    above, low, near = chance.choice(_SKIES)
    scene = _fade(above, low, (_WIDTH, _HEIGHT))
    sun = (chance.uniform(0.2, 0.8) * _WIDTH, chance.uniform(0.28, 0.46) * _HEIGHT)
    _soft(scene, _oval(*sun, 460, 460), (255, 244, 214), 120, 90)
    _soft(scene, _oval(*sun, 110, 110), (255, 250, 232), 250, 4)
    layers = 4
    for layer in range(layers):
        part = (layer + 1) / layers
        line = _ridge(chance, _HEIGHT * (0.44 + (horizon - 0.36) * part), 150 - 22 * layer)
        colour = _mixed(low, near, 0.28 + 0.62 * part)
        ImageDraw.Draw(scene).polygon([(0, _HEIGHT), *line, (_WIDTH, _HEIGHT)], fill=colour)
    if chance.random() < 0.6:
        _lake(scene, above, low, sun[0], chance)
    return scene


def _lake(scene: Image.Image, above: Colour, low: Colour, sun: float, chance: Random) -> None:
    shore = int(_HEIGHT * 0.83)
    water = _fade(_mixed(low, above, 0.25), _mixed(above, (10, 16, 30), 0.35), (_WIDTH, _HEIGHT - shore))
    scene.paste(water, (0, shore))
    for _ in range(46):
        y = chance.uniform(shore + 6, _HEIGHT)
        width = 30 + (y - shore) * chance.uniform(0.3, 1.3)
        x = sun + chance.gauss(0, 30 + (y - shore) * 0.3)
        glint = [(x - width, y), (x, y - 2), (x + width, y), (x, y + 3)]
        ImageDraw.Draw(scene).polygon(glint, fill=_mixed(low, (255, 255, 255), 0.35))


def _boot_on_trail(chance: Random) -> Image.Image:
    scene = _landscape(chance, horizon=0.54)
    ground = _ridge(chance, _HEIGHT * 0.80, 24)
    earth = chance.choice([(104, 88, 66), (92, 98, 72), (118, 106, 92)])
    _solid(scene, [*ground, (_WIDTH, _HEIGHT), (0, _HEIGHT)], earth, 0.15)
    for _ in range(70):
        x, y = chance.uniform(0, _WIDTH), chance.uniform(0.86, 1.0) * _HEIGHT
        size = chance.uniform(8, 46)
        stone = _mixed(earth, chance.choice([(30, 28, 26), (220, 210, 196)]), 0.3)
        ImageDraw.Draw(scene).polygon(_oval(x, y, size, size * 0.6), fill=stone)
    leather, at = chance.choice(_LEATHERS), chance.uniform(0.24, 0.42) * _WIDTH
    _boot(scene, (at + 150, _HEIGHT * 0.86 - 30), 0.86, _mixed(leather, (0, 0, 0), 0.25))
    _boot(scene, (at, _HEIGHT * 0.9), 1.0, leather)
    return scene


def _boot(scene: Image.Image, heel: Point, scale: float, leather: Colour) -> None:
    def placed(*points: Point) -> list[Point]:
        return [(heel[0] + x * scale, heel[1] + y * scale) for x, y in points]

    _soft(scene, placed(*_oval(290, 6, 700, 70)), (10, 10, 10), 150, 22)
    shaft = [(6, -60), (2, -180), (-6, -330), (10, -420), (110, -436), (204, -420), (222, -340), (262, -252)]
    upper = _curve(placed(*shaft, (370, -200), (480, -172), (556, -120), (566, -60), (300, -46)))
    _solid(scene, upper, leather)
    _solid(
        scene,
        _curve(placed((400, -60), (412, -150), (480, -168), (556, -118), (566, -58))),
        _mixed(leather, (20, 16, 14), 0.4),
    )
    _solid(
        scene,
        _curve(placed((4, -420), (60, -452), (150, -456), (212, -424), (200, -384), (100, -398), (10, -386))),
        (54, 50, 48),
    )
    draw = ImageDraw.Draw(scene)
    draw.polygon(
        placed((-10, -62), (300, -52), (580, -66), (588, -30), (560, -6), (200, -8), (180, -20), (140, 0), (-4, 0)),
        fill=(38, 36, 38),
    )
    draw.line(placed((-8, -58), (300, -48), (580, -62)), fill=(206, 188, 150), width=max(2, int(7 * scale)))
    for row in range(6):
        x, y = 206 + row * 27, -376 + row * 34
        draw.line(placed((x - 46, y + 10), (x + 22, y - 8)), fill=(214, 66, 52), width=max(2, int(9 * scale)))
        draw.ellipse([*placed((x - 54, y + 2))[0], *placed((x - 38, y + 18))[0]], fill=(196, 180, 130))


def _room(chance: Random) -> tuple[Image.Image, float]:
    """A wall in window light above a table, and the height of its edge."""
    wall, table = chance.choice(_ROOMS)
    edge = _HEIGHT * chance.uniform(0.56, 0.64)
    scene = _fade(_mixed(wall, (255, 255, 255), 0.25), _mixed(wall, (70, 60, 56), 0.25), (_WIDTH, _HEIGHT))
    at = chance.uniform(0.05, 0.5) * _WIDTH
    for pane in (0, 1):
        left = at + pane * 250
        _soft(scene, [(left, 60), (left + 210, 90), (left + 300, edge), (left + 90, edge)], (255, 250, 232), 130, 10)
    top = _fade(_mixed(table, (255, 236, 210), 0.3), _mixed(table, (20, 12, 8), 0.35), (_WIDTH, int(_HEIGHT - edge)))
    scene.paste(top, (0, int(edge)))
    draw = ImageDraw.Draw(scene)
    for _ in range(26):
        y = chance.uniform(edge + 12, _HEIGHT)
        draw.line([(0, y), (_WIDTH, y + chance.uniform(-10, 10))], fill=_mixed(table, (0, 0, 0), 0.18), width=2)
    return scene, edge


def _teapot_on_table(chance: Random) -> Image.Image:
    scene, edge = _room(chance)
    glaze, x, y = chance.choice(_GLAZES), chance.uniform(0.36, 0.56) * _WIDTH, edge + 120
    _soft(scene, _oval(x + 60, y + 178, 860, 120), (20, 12, 8), 150, 26)
    handle = Image.new("L", scene.size, 0)
    ImageDraw.Draw(handle).arc([x - 480, y - 190, x - 160, y + 130], 60, 320, fill=255, width=46)
    scene.paste(Image.new("RGB", scene.size, _mixed(glaze, (0, 0, 0), 0.3)), (0, 0), handle)
    spout = [
        (x + 220, y + 60),
        (x + 330, y - 10),
        (x + 400, y - 150),
        (x + 470, y - 176),
        (x + 446, y - 100),
        (x + 380, y + 70),
        (x + 240, y + 140),
    ]
    _solid(scene, _curve(spout), glaze, 0.25)
    _solid(scene, _oval(x, y, 660, 400), glaze, 0.45)
    _solid(scene, _oval(x, y + 182, 360, 44), _mixed(glaze, (0, 0, 0), 0.4))
    _solid(scene, _oval(x, y - 178, 330, 84), _mixed(glaze, (255, 255, 255), 0.12))
    _solid(scene, _oval(x, y - 226, 76, 66), _mixed(glaze, (0, 0, 0), 0.15))
    _soft(scene, _oval(x - 150, y - 80, 150, 90), (255, 255, 255), 110, 24)
    cup = chance.choice([x + 590, x - 640])
    _soft(scene, _oval(cup + 20, y + 196, 320, 60), (20, 12, 8), 140, 18)
    _solid(
        scene,
        _curve([(cup - 120, y + 60), (cup + 120, y + 60), (cup + 90, y + 190), (cup, y + 206), (cup - 90, y + 190)]),
        glaze,
        0.5,
    )
    _solid(scene, _oval(cup, y + 58, 250, 62), _mixed(glaze, (255, 255, 255), 0.25))
    _solid(scene, _oval(cup, y + 62, 206, 44), (150, 84, 34), 0.15)
    for wisp in (-30, 26):
        rise = [(cup + wisp + 26 * sin(step / 3), y + 30 - step * 15) for step in range(18)]
        back = [(px + 14 + step, py) for step, (px, py) in enumerate(reversed(rise))]
        _soft(scene, [*rise, *back], (255, 255, 255), 90, 12)
    return scene


def _camera_on_table(chance: Random) -> Image.Image:
    scene, edge = _room(chance)
    x, y = chance.uniform(0.4, 0.56) * _WIDTH, edge + 40
    body = chance.choice([(48, 48, 52), (58, 46, 40), (70, 74, 78)])
    _soft(scene, _oval(x + 40, y + 214, 900, 110), (14, 10, 8), 160, 24)
    strap = [(x - 380, y - 90), (x - 560, y + 60), (x - 520, y + 240), (x - 330, y + 300), (x - 120, y + 330)]
    ImageDraw.Draw(scene).line(_curve([*strap, *reversed(strap)])[:48], fill=(120, 72, 40), width=26, joint="curve")
    _rounded(scene, (x - 390, y - 230, x + 390, y + 220), 54, (196, 198, 200))
    _rounded(scene, (x - 390, y - 150, x + 390, y + 170), 16, body)
    _rounded(scene, (x + 130, y - 262, x + 230, y - 220), 12, (170, 172, 176))
    _rounded(scene, (x - 330, y - 256, x - 250, y - 222), 12, (150, 152, 156))
    _rounded(scene, (x + 190, y - 206, x + 330, y - 160), 10, (26, 30, 40))
    for size, colour in (
        (390, (30, 30, 34)),
        (340, (84, 86, 90)),
        (310, (24, 24, 28)),
        (220, (26, 34, 58)),
        (120, (14, 18, 36)),
    ):
        _solid(scene, _oval(x - 40, y + 10, size, size), colour, 0.25)
    _soft(scene, _oval(x - 84, y - 44, 60, 44), (210, 220, 255), 190, 8)
    _soft(scene, _oval(x - 4, y + 50, 34, 26), (190, 150, 220), 130, 6)
    ImageDraw.Draw(scene).ellipse([x - 350, y - 206, x - 322, y - 178], fill=(206, 52, 44))
    return scene


def _rounded(scene: Image.Image, box: tuple[float, float, float, float], radius: float, colour: Colour) -> None:
    left, top, right, bottom = box
    corners = (
        (right - radius, top + radius, -90),
        (right - radius, bottom - radius, 0),
        (left + radius, bottom - radius, 90),
        (left + radius, top + radius, 180),
    )
    shape = [
        (x + radius * cos(pi * (start + step) / 180), y + radius * sin(pi * (start + step) / 180))
        for x, y, start in corners
        for step in range(0, 91, 6)
    ]
    _solid(scene, shape, colour, 0.2)
