"""Watch a running model and record what every API and module received and returned."""

from torchparity.capture._debugger import Capture, PrecisionDebugger, capture
from torchparity.capture._seeding import seed_all

__all__ = ["Capture", "PrecisionDebugger", "capture", "seed_all"]
