"""Facts about APIs: which cannot be perturbed, which may write, and which of their results are compared."""


def function_of(api: str) -> str:
    """Return the name of an API's function without its family: `eigh` of Torch.linalg_eigh."""
    return api.rpartition(".")[2].removeprefix("linalg_")
