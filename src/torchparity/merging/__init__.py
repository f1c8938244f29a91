"""Merges the results of comparing several ranks: one workbook, a sheet per metric, a column per rank.

config        which APIs and metrics a user asks for, from a YAML file
result_files  the files that comparing wrote, by step and rank
reading       a result as text, whichever format it is in
modes         results of values, statistics and checksums, and the metrics of each
sheets        the rows of all ranks side by side
merge         all of it
"""

from torchparity.merging.config import MergeConfig, read_config
from torchparity.merging.merge import Merged, merge_results

__all__ = ["MergeConfig", "Merged", "merge_results", "read_config"]
