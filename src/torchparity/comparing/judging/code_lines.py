def code_lines(frames):
    own = [f for f in frames if "site-packages" not in f]
    return tuple(own[:1])
