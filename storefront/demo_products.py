"""The three products of the demo shop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

STORE_ID: Final = "Demo"
STORE_NAME: Final = "Plaudit Goods"
ENTITY_TYPE: Final = "Product"


@dataclass(frozen=True, slots=True)
class Product:
    """A product as the shop shows it. Prices are in euros; `facts` are pairs of name and value."""

    id: str
    kind: str
    name: str
    brand: str
    price: str
    sku: str
    gtin: str
    line: str
    text: str
    facts: Sequence[tuple[str, str]]


PRODUCTS: Final = (
    Product(
        "lyra-35",
        "camera",
        "Lyra 35 compact camera",
        "Lyra",
        "649.00",
        "LY-35-B",
        "4006381333931",
        "A fixed lens, a big sensor, and a pocket it fits into.",
        "Thirty-five millimetres, f/2, and a dial for everything that matters. It starts in a second, shoots without "
        "a sound, and looks as if it had always been yours.",
        (("Sensor", "24 megapixels, APS-C"), ("Lens", "35 mm, f/2"), ("Weight", "398 g"), ("Battery", "420 pictures")),
    ),
    Product(
        "ridgeline",
        "boot",
        "Ridgeline hiking boot",
        "Halden",
        "189.00",
        "HA-RL-M",
        "4012345678901",
        "Waterproof leather that is broken in by the first hut.",
        "Cut from one piece of oiled leather, lined so that rain stays out, on a sole that can be replaced when "
        "the mountains have worn it down.",
        (
            ("Upper", "Oiled leather, 2.4 mm"),
            ("Lining", "Waterproof membrane"),
            ("Weight", "540 g"),
            ("Sizes", "36-48"),
        ),
    ),
    Product(
        "sora",
        "teapot",
        "Sora stoneware teapot",
        "Atelier Sora",
        "58.00",
        "SO-TP-09",
        "4098765432106",
        "Thrown by hand, glazed like a clear morning.",
        "Holds four cups and keeps them warm. The strainer is of steel and comes out in one piece; the glaze is "
        "different on every pot.",
        (
            ("Holds", "0.9 l"),
            ("Material", "Stoneware, fired at 1260\N{NO-BREAK SPACE}°C"),
            ("Strainer", "Steel"),
            ("Made in", "Small batches"),
        ),
    ),
)
