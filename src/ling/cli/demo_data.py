"""Made-up sales of houses: numbers, categories and dates as numbers, with noise."""

from __future__ import annotations

from typing import Any

import numpy as np

CITIES = {
    "Aldby": 1.35, "Brenna": 1.2, "Corvik": 1.0, "Dalen": 0.95, "Elvestad": 0.9, "Fjorda": 1.1,
    "Granholt": 0.85, "Havnes": 1.05, "Innvik": 0.8, "Jordheim": 0.75,
}  # fmt: skip
HOUSE_TYPES = {
    "flat": 0.0,
    "terraced": 6.0,
    "semi-detached": 14.0,
    "detached": 35.0,
    "cottage": -12.0,
}
HEATING = {"gas": 0.0, "electric": -3.0, "heat pump": 8.0, "district": 4.0, "oil": -6.0}
CONDITIONS = {"new": 25.0, "good": 8.0, "fair": 0.0, "poor": -18.0}
ENERGY_CLASSES = {"A": 12.0, "B": 8.0, "C": 4.0, "D": 0.0, "E": -3.0, "F": -6.0, "G": -10.0}
N_DISTRICTS = 40


def make_houses(n: int, seed: int, first: int = 0) -> Any:
    """A `pyarrow.Table` of n sales; the price, in thousands, is linear but for noise.

    Houses are numbered from `first` on.
    """
    import pyarrow as pa

    rng = np.random.default_rng([seed, first])
    area = np.round(rng.gamma(6.0, 18.0, n) + 20.0, 1)
    rooms = np.clip(np.round(area / 28 + rng.normal(0, 0.8, n)), 1, 12).astype(np.int64)
    texts = {
        name: rng.choice(list(values), n)
        for name, values in (
            ("city", CITIES),
            ("type", HOUSE_TYPES),
            ("heating", HEATING),
            ("condition", CONDITIONS),
            ("energy_class", ENERGY_CLASSES),
        )
    }
    district = rng.integers(0, N_DISTRICTS, n)
    year_built = rng.integers(1880, 2024, n)
    days = rng.integers(0, 3653, n)  # since the beginning of 2015
    distance = np.round(rng.exponential(6.0, n), 2)
    floor = rng.integers(0, 9, n)
    garden = np.round(np.where(texts["type"] == "flat", 0.0, rng.gamma(2.0, 150.0, n)), 0)
    garage = rng.random(n) < 0.4
    latitude, longitude = rng.normal(60.0, 1.5, n), rng.normal(10.0, 1.0, n)
    price = (
        60
        + 2.6 * area
        + 7.0 * rooms
        + 0.18 * (year_built - 1950)
        + 0.022 * days
        - 3.1 * distance
        + 1.2 * floor
        + 0.035 * garden
        + 15.0 * garage
        + 4.0 * (latitude - 60.0)
        + _district_effects()[district]
        + _effects_of(CITIES, texts["city"]) * 80
        + _effects_of(HOUSE_TYPES, texts["type"])
        + _effects_of(HEATING, texts["heating"])
        + _effects_of(CONDITIONS, texts["condition"])
        + _effects_of(ENERGY_CLASSES, texts["energy_class"])
        + rng.normal(0, 28.0, n)
    )
    return pa.table(
        {
            "house_id": np.char.add("H", np.arange(first, first + n).astype(str)),
            "area": area, "rooms": rooms, "year_built": year_built, "days_since_2015": days,
            "distance_km": distance, "floor": floor, "garden": garden, "garage": garage,
            "latitude": latitude, "longitude": longitude, **texts,
            "district": np.char.add("D", np.char.zfill(district.astype(str), 2)),
            "price": np.round(price, 1),
        }
    )  # fmt: skip


def _effects_of(values: dict[str, float], texts: Any) -> Any:
    return np.vectorize(values.get, otypes=[np.float64])(texts)


def _district_effects() -> Any:
    """The same whoever asks."""
    return np.random.default_rng(40).normal(0, 12.0, N_DISTRICTS)
