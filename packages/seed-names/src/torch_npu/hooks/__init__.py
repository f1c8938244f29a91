"""torch_npu.hooks, answered by torchparity."""

from torchparity.compat.hooks import register_acc_cmp_hook, seed_all, set_dump_path

__all__ = ["register_acc_cmp_hook", "seed_all", "set_dump_path"]
