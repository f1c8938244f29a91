"""The calls of one iteration in three files, as api_accuracy_checker has them.

forward_info_{pid}.json      {call: {"args": [...], "kwargs": {...}}}
backward_info_{pid}.json     {call: [gradients that it received]}
stack_info_{pid}.json        {call: [frames, innermost first]}
forward_real_data/           the values of the arguments, where they were asked for
backward_real_data/          those of the gradients
run_ut_settings_{pid}.json   the folder for what fails in the check, where the collection was given one
"""
