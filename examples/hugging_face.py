"""Show that a Hugging Face model may use another implementation of attention: rounding explains all that changes.

The model is small and has random weights, so nothing is downloaded. Needs `pip install torchparity[examples]`.
"""

from __future__ import annotations

import sys

import torch

import torchparity

RUNS = "example_runs/hugging_face"


def record(attention: str) -> str:
    from transformers import LlamaConfig, LlamaForCausalLM

    path = f"{RUNS}/{attention}"
    torchparity.seed_all(1234)
    config = LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation=attention,
    )
    model = LlamaForCausalLM(config)
    tokens = torch.randint(128, (2, 16))
    with torchparity.capture(path, model=model, task="tensor", overwrite=True):
        model(input_ids=tokens, labels=tokens).loss.backward()
    return path


def main() -> int:
    try:
        import transformers
    except ImportError:
        print("This example needs transformers, which is not installed: pip install torchparity[examples]")
        return 0
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    comparison = torchparity.compare(record("eager"), record("sdpa"))
    print(comparison.headline())
    print(dict(comparison.counts()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
