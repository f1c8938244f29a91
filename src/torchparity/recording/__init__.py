"""Record a running model: the listener that keeps what every API and module received and returned."""

from torchparity.recording.debugger import Capture, PrecisionDebugger, capture

__all__ = ["Capture", "PrecisionDebugger", "capture", "module_dump", "module_dump_end"]

module_dump = PrecisionDebugger.module_dump
module_dump_end = PrecisionDebugger.module_dump_end
