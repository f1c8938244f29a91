"""The version of torchparity, in the one place that packaging and runs on disk read it from."""

__version__ = "0.1.0"
