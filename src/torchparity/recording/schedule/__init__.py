"""When a recording listens: batches of a DataLoader, a range of tokens, the switch in config.json."""
