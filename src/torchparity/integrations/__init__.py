"""Where people train and test already: each file serves one framework and loads nothing before it is used."""
