"""Names that the documents of the earlier tools print and no test has to cover, each with the reason.

A name may be a pattern: `*` stands for any text, `[*]` for a star.
"""

from __future__ import annotations

_SHELL = "a word of the shell"
_USERS = "a name of the reader's own, in an example"
_PICTURE = "a picture in the document"
_BUILD = "building from source is declined: a wheel needs no build"
_TORCH = "a function of torch"

REASONS: dict[str, dict[str, str]] = {
    "function": {
        "ModuleOp": "a misprint of ModuleOP, a class of the example",
        "backward": _TORCH,
        "eval": _TORCH,
        "sum": _TORCH,
        "hook": "the word for a function that torch calls",
        "forward_step": _USERS,
    },
    "command": {
        "bash": _BUILD,
        "cd": _SHELL,
        "cmake": _BUILD,
        "export": _SHELL,
        "git clone": _BUILD,
        "make": _BUILD,
        "mkdir": _BUILD,
        "pip3 install": "installs the tool or its dependencies",
    },
    "flag": {"--force-reinstall": "an option of pip", "--upgrade": "an option of pip"},
    "field": {
        "ceil_mode": "an argument of max_pool2d, in an example of a record",
        "return_indices": "an argument of max_pool2d, in an example of a record",
        "dytpe": "a misprint of dtype",
    },
    "value": {"True": "a word of Python", "torch_float32": "a misprint of torch.float32"},
    "file": {
        "*.md": "another document",
        "*.png": _PICTURE,
        "*.whl": "the wheel of the tool itself; packages/seed-names takes its place",
        "../config.json": "a link to config.json",
        "[*].yaml": "any name; data_mapping.yaml is the example",
        "compare.py": _USERS,
        "main.py": _USERS,
        "pretrain_gpt.py": _USERS,
    },
    "column": {
        "Data_Name": "spelled Data_name in msprobe's tables, and here",
        "Err_Message": "spelled Err_message in msprobe's tables, and here",
        "Five Thousandth Err Ratio": "spelled Five Thousandths Err Ratio in msprobe's tables, and here",
        "L2 Norm diff": "spelled L2norm diff in msprobe's tables, and here",
    },
    "message": {
        "Got unsupported ScalarType BFloat16": "an error of an older version, which a newer one does not raise",
        "Free benchmark: 无标杆*": "said in English here: the types of the inputs of … are not supported",
    },
    "name": {
        "ADAPTER_TARGET_PYTHON_PATH": _BUILD,
        "ATT_HOME": "where the reader keeps the sources; seed-names installs its files instead",
        "accuracy_tools": "a folder of the sources",
        "cpu_op_*": _PICTURE,
        "npu_op_*": _PICTURE,
        "op_compare": _PICTURE,
        "pt_dump": _PICTURE,
        "compare_result": _PICTURE,
        "merge_result": _PICTURE,
        "in_features": "an argument of torch.nn.Linear",
        "out_features": "an argument of torch.nn.Linear",
        "model_*": _USERS,
        "module_name": "stands for the name of any module",
        "api_type": "stands for Functional, Tensor, Torch and their like",
    },
}
