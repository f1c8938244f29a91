"""Watch a running model and record what every API and module received and returned."""

from torchparity.capture._debugger import Capture, PrecisionDebugger, capture

__all__ = ["Capture", "PrecisionDebugger", "capture"]
