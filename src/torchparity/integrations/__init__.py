"""Recording where people train already: a callback for each trainer, in a file named after its package.

    torchparity.integrations.transformers.ParityCallback    for the Trainer of transformers
    torchparity.integrations.lightning.ParityCallback       for the Trainer of Lightning

Each file imports its package; importing torchparity imports none of them.
"""
