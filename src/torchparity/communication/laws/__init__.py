"""Laws of communication: what every rank must receive, given what the ranks of its group sent.

expectations    what each received tensor must be, for every collective
roundings       how far a reduction may be off, by dtype and number of ranks
by_values       a law checked element by element
by_statistics   a law checked by sketches, maxima, sums and norms
nonfinite       a law about nan and inf, by statistics
replicas        parameters that ranks have in common stay in common: DDP's law
findings        laws that are broken, that hold, and that cannot be checked
"""
