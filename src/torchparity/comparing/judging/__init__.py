"""What the distances mean: one `Verdict`, which the headline, the files, `--json` and the exit code read.

judge                 from compared parts to the verdict            verdict          its types: Kind, Finding, Verdict

    Looking for where the runs part
rank_search           the records of one rank, step after step, each judged by what it received
part                  what the judge reads of a compared part
context               the records of one part, with what is known about them
judged_record         a pair of records: the tensors that it received and returned
data_flow             who made what, as the runs recorded it; by content where they did not
inputs, outputs       findings about what a record received and returned
arguments             findings about arguments that are no tensors
missing_gradients, parameter_gradients                               findings about gradients
expectations          what precision/ expects of an output           cancellation     the same where little is known
ranks                 the order of findings over ranks               batch            runs with other batch sizes
choices               choices among equals, and what is in another order because of them
limits, record_patterns                                              what a user expects and lets pass

    Explaining it
environment, operator_families                                       differences of the two environments
tf32, dtypes          products of TF32's size, runs in other dtypes
operators             operators that draw, choose, communicate or return raw memory
coverage              how much was compared at all
code_lines, step_facts                                               lines of code; the losses of a step
sentences, advice, exit_codes                                        the verdict in words and as a number
"""
