"""The inside of a .pt file, read as data: a zip directory and a pickle of which nothing is run."""
