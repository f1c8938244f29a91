"""Reading a run: finding its parts, their files, records, stacks and tensors."""
