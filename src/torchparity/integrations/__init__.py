"""Recording and comparing where people train and test already, in a file named after each package.

    torchparity.integrations.transformers.ParityCallback    for the Trainer of transformers
    torchparity.integrations.lightning.ParityCallback       for the Trainer of Lightning
    torchparity.integrations.pytest                         the fixture `parity`

Each file imports its package; importing torchparity imports none of them.
"""
