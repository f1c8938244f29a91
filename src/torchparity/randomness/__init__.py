"""Random numbers in two runs: give both the same, and list the calls that draw them."""

from torchparity.randomness.random_calls import random_save
from torchparity.randomness.seeding import seed_all

__all__ = ["random_save", "seed_all"]
