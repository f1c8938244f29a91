"""True gradients of a call: the nodes it made in autograd's graph, hooks on them, and sums of parts."""
