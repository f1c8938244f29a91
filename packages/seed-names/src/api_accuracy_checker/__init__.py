"""api_accuracy_checker, answered by torchparity."""
