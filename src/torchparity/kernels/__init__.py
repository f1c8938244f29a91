"""One pass over a tensor (statistics, checksum) or over a pair of tensors (metrics).

`reference` defines the statistics in plain NumPy; every faster kernel is tested against it.
`cpu.CpuKernel` measures one host tensor, `arenas` many tensors with few launches,
`pairs.compare_pair` reads two tensors once and returns how far they are apart.
`numba_loops` and `triton_launch` are the compiled loops behind them; `row` names the sums they produce.
"""
