"""Task overflow_check: records only the calls that overflow, with everything they received and returned.

finiteness      whether a tensor, or an argument that is none, is finite
flags           the overflow flags of devices that saturate, read and never cleared
loss_scaling    what a GradScaler does on purpose
arguments       a call's arguments, kept for when it turns out to have overflowed
recorder        the listener
ptdbg           the error with which ptdbg_ascend stops a training
"""
