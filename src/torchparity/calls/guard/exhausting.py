"""Several calls in one go: no handler of a signal comes in between, as it may between two steps of Python's."""

from collections import deque
from functools import partial

exhaust = partial(deque[object], maxlen=0)  # goes through an iterator
