"""Checking without a baseline: an API runs again on inputs that were changed a little, and both results are compared.

apis/            which APIs cannot be perturbed, which may write, and which of their results are compared
subject          one call as it can be run again
perturbations/   the changes, one file each
rerunning        running an API again without a trace
raised_products  products of halves in float32, by a shorter way than raising them
deviation        how far two results are apart
fused_deviation  the same by one kernel on a CUDA device; kernels are in triton_launch/
widening         copies of tensors in a wider dtype
thresholds       how far apart they may be, and what a preheat learns of that
arriving         deviations on their way from a device to the host
verdicts         deviations become rows
findings         free_benchmark.csv
selected_calls   which calls are perturbed
checking         the listeners that compare, forward and backward
fixing           the listener that puts the perturbed result in place of the API's own
significance/    how many bits of a result mean something, and why not more
"""
