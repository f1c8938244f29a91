"""The two programs of api_accuracy_checker, each a file that runs where it lies."""
