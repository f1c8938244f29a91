"""The names of five earlier tools, as thin fronts of torchparity's own API: they translate, and compute nothing.

install        makes the names importable: torch_npu.hooks, ptdbg_ascend, api_accuracy_checker, msprobe
dumping        recording by functions: which models are hooked, and the run that is written
hooks          torch_npu.hooks, and hooks_tools its compare
ptdbg_ascend   register_hook, set_dump_switch, compare, parse, and its PrecisionDebugger
msprobe        the command line `msprobe`, and msprobe_pytorch the functions
run_ut         run_ut.py and run_overflow_check.py as `python -m` and as files
"""

from torchparity.running.earlier_tools import install

__all__ = ["install"]
