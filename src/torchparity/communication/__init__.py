"""Communication of the ranks of one run: which records belong together, in which order, and by which laws.

operators    what each collective sends and receives, by its name
shares       one rank's part in a communication, read from its record
groups       which ranks a process group has
meetings     the records of all ranks that make up one communication
clocks       which of two records on different ranks came first
laws/        what a communication must give each rank, checked on one run
entry        a run in, broken laws out

It imports no torch, and needs no second run.
"""
