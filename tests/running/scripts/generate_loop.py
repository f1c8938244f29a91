"""Text from a small GPT-2 with random weights: generate() of transformers."""

import hashlib

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def fingerprint(model):
    state = b"".join(value.float().numpy().tobytes() for value in model.state_dict().values())
    return hashlib.sha256(state).hexdigest()


torch.manual_seed(6)
config = GPT2Config(
    vocab_size=64, n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2, pad_token_id=0
)
model = GPT2LMHeadModel(config).eval()
prompt = torch.randint(3, 64, (1, 4))
tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=4, min_new_tokens=4)
print("tokens", tokens.tolist())
print("weights", fingerprint(model))
