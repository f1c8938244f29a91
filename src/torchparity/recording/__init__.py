"""Record a running model: the listener that keeps what every API and module received and returned."""

from torchparity.recording.debugger import Capture, PrecisionDebugger, capture
from torchparity.recording.session import Session

__all__ = ["Capture", "PrecisionDebugger", "Session", "capture", "module_dump", "module_dump_end"]

module_dump = PrecisionDebugger.module_dump
module_dump_end = PrecisionDebugger.module_dump_end
