"""The fault bed: faults planted in small models, and clean pairs, to measure how often the verdict is right.

    make faultbed                                    record, compare, and write docs/faultbed.md; may be interrupted
    make faultbed ARGS="--only llama/NaN"            some cases alone
    make faultbed ARGS=--recompare                   compare the recorded runs again: minutes, after a change of judging
    make faultbed ARGS=--held-out                    the held-out models and kinds: for the final table alone
    FAULTBED=/some/folder make faultbed              where runs (3 GB) and results.jsonl are kept

    program     a subject (model, data, optimizer) and the training that is recorded
    models      the subjects; heldout: two more, and five kinds of fault
    plant       where a fault goes: above the recorder (another argument) or below it (a wrong kernel)
    operators   kinds: wrong kernels and gradients      arguments   kinds: other arguments, random numbers, no gradient
    training    kinds: data, weights, buffers, settings of the optimizer
    catalogue   records of a baseline, where faults can be planted
    truth       the truth of a case, checked against the bits of the recorded tensors
    answer      the comparison's answer and msprobe's rule
    cases       runs one fault          clean, ranks    runs one clean pair
    runner      runs all of them, two at a time         table       the page of the results

The truth of a fault is the record at which it was planted, as the candidate names it, and the kinds that are true of
it. Of a module that makes one call and nothing else the module's record of that call is as true as the call's. A
detached branch is named by the addition's backward, by the detach itself, or by a backward record that the candidate no
longer has. A setting of an optimizer is named by the first of its calls that has it among its arguments. Where the
first record that differs in its bits is none of these, the line says `"confirmed": false`.
"""
