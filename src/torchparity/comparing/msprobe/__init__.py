"""The words, verdicts, colours and columns of msprobe's tables, made from typed results and nowhere else."""
