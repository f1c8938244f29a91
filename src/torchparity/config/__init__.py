"""config.json, compare.json and keyword arguments as typed settings, or an error that names field and choices."""

from torchparity.config.keywords import (
    CaptureFields,
    DebuggerFields,
    FreeBenchmarkFields,
    IndexRange,
    OverflowFields,
    StatisticsFields,
    TensorFields,
    with_keywords,
)
from torchparity.config.reading import (
    capture_config,
    load_capture_config,
    load_compare_config,
    read_settings,
)
from torchparity.config.settings import (
    LARGEST_INDEX,
    CaptureConfig,
    CompareConfig,
    FreeBenchmarkTask,
    Level,
    OverflowTask,
    RecordingLevel,
    RecordingTask,
    StatisticsTask,
    Task,
    TensorTask,
)

__all__ = [
    "LARGEST_INDEX",
    "CaptureConfig",
    "CaptureFields",
    "CompareConfig",
    "DebuggerFields",
    "FreeBenchmarkFields",
    "FreeBenchmarkTask",
    "IndexRange",
    "Level",
    "OverflowFields",
    "OverflowTask",
    "RecordingLevel",
    "RecordingTask",
    "StatisticsFields",
    "StatisticsTask",
    "Task",
    "TensorFields",
    "TensorTask",
    "capture_config",
    "load_capture_config",
    "load_compare_config",
    "read_settings",
    "with_keywords",
]
