"""The Trainer of transformers on a small Llama with random weights."""

import hashlib
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback, Trainer, TrainingArguments, set_seed


def fingerprint(model):
    state = b"".join(value.float().numpy().tobytes() for value in model.state_dict().values())
    return hashlib.sha256(state).hexdigest()


class Sentences(torch.utils.data.Dataset):
    def __init__(self, count):
        self.tokens = torch.randint(64, (count, 8))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


set_seed(0)
config = LlamaConfig(
    vocab_size=64,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
)
model = LlamaForCausalLM(config)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=3,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
        use_cpu=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Sentences(16))
    trainer.remove_callback(PrinterCallback)  # it prints how long everything took
    result = trainer.train()
print("steps", result.global_step, "loss", result.training_loss)
print("weights", fingerprint(model))
