"""Which record and item of one run belongs to which of the other."""
