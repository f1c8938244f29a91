"""Overflows of recorded calls: normal where the mathematics leaves the range of the dtype, else abnormal.

suspects     calls of a run that overflowed, as their records tell
verdict      one overflow judged by the same call in float64
wording      its sentences
entry        a run or a forward_info in, verdicts out
"""
