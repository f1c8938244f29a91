"""The meaning of the distances: one `Verdict`, which the headline, the files, `--json` and the exit code read.

judge                  from compared parts to the verdict
verdict                its types: Kind, Finding, Verdict
part                   what the judge reads of a compared part
figures                its numbers, each with its reason
repeated_facts         facts that several findings show, each told once
batch                  runs with other batch sizes
limits                 what a user expects and lets pass
record_patterns        patterns that name records

evidence/              facts, which blame nobody
    judged_record      a pair of records: the tensors that it received and returned
    data_flow          who made what, as the runs recorded it; by content where they did not
    coverage           how much was compared at all
    cut_off            a run that ended within a step
    operators          operators that draw, choose, communicate or return raw memory
    operator_families  families of operators that a setting bears on
    environment        differences of the two environments
    dtypes             runs in other dtypes
    tf32               products of TF32's size
    beyond_numbers     differences that no number tells: nan, inf, another shape
    step_facts         the losses of a step, and the norm of its gradients

search/                where the runs part
    rank_search        the records of one rank, step after step, each judged by what it received
    ranks              the order of findings over ranks
    context            the records of one part, with what is known about them
    inputs             findings about what a record received
    outputs            findings about what a record returned
    expectations       what precision/ expects of an output
    cancellation       the same where little is known
    arguments          arguments that differ and are no tensors
    argument_findings  findings about them
    closeness          how close the records are that no finding explains
    masks              masks that hide what the other elements are off by
    choices            choices among equals, and what is in another order because of them
    saved_values       findings about values that were saved by hand
    missing_gradients, parameter_gradients      findings about gradients

wording/               the verdict for people
    sentences          in one sentence
    advice             what to do about it
    exit_codes         as a number
"""
