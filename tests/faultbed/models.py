"""The models of the bed: tiny ones of transformers made from configs on the spot, and two of torch alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.faultbed.program import Batch, Subject, loss_of_labels

WORDS = 48


def _llama(**changes: Any) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        attention_dropout=0.1,
        **changes,
    )
    return LlamaForCausalLM(config)


def _qwen2(**changes: Any) -> nn.Module:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=WORDS,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        tie_word_embeddings=True,
        attention_dropout=0.1,
        **({"attn_implementation": "eager"} | changes),
    )
    return Qwen2ForCausalLM(config)


def _gpt2(**changes: Any) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=WORDS,
        n_embd=24,
        n_layer=2,
        n_head=4,
        n_positions=32,
        activation_function="gelu",
        bos_token_id=1,
        eos_token_id=2,
        **({"attn_implementation": "eager"} | changes),
    )
    return GPT2LMHeadModel(config)


def _bert(**changes: Any) -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        **changes,
    )
    return BertForMaskedLM(config)


def _mixtral(**changes: Any) -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=WORDS,
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=32,
        attention_dropout=0.1,
        **changes,
    )
    return MixtralForCausalLM(config)


def _t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=WORDS,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=1,
        num_decoder_layers=1,
        num_heads=2,
        dropout_rate=0.1,
        decoder_start_token_id=0,
        pad_token_id=0,
    )
    return T5ForConditionalGeneration(config)


def _vit(**changes: Any) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=16,
        patch_size=4,
        num_labels=5,
        hidden_dropout_prob=0.1,
        **changes,
    )
    return ViTForImageClassification(config)


def _whisper() -> nn.Module:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=WORDS,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        num_mel_bins=8,
        max_source_positions=16,
        max_target_positions=16,
        dropout=0.1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return WhisperForConditionalGeneration(config)


class ConvNet(nn.Module):
    """Convolutions with batch norm, a shortcut, dropout and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.act, self.drop, self.pool, self.fc = nn.GELU(), nn.Dropout(0.1), nn.MaxPool2d(2), nn.Linear(128, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.bn1(self.conv1(x)))
        x = x + self.bn2(self.conv2(x))
        logits: torch.Tensor = self.fc(self.drop(self.pool(x).flatten(1)))
        return logits


class Recurrent(nn.Module):
    """An embedding of numbers, two layers of LSTM with dropout between, a layer norm and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.rnn = nn.Linear(6, 12), nn.LSTM(12, 10, num_layers=2, batch_first=True, dropout=0.1)
        self.norm, self.drop, self.fc = nn.LayerNorm(10), nn.Dropout(0.1), nn.Linear(10, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.rnn(torch.tanh(self.up(x)))[0]
        logits: torch.Tensor = self.fc(self.drop(self.norm(hidden[:, -1] + hidden.mean(1))))
        return logits


def _tokens() -> Batch:
    tokens = torch.randint(3, WORDS, (2, 10))
    return {"input_ids": tokens, "labels": tokens}


def _padded_tokens() -> Batch:
    mask = torch.ones(2, 10, dtype=torch.int64)
    mask[1, 7:] = 0
    return _tokens() | {"attention_mask": mask}


def _to_translate() -> Batch:
    return {"input_ids": torch.randint(3, WORDS, (2, 9)), "labels": torch.randint(3, WORDS, (2, 7))}


def _pixels() -> Batch:
    return {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.randint(5, (2,))}


def _sounds() -> Batch:
    return {"input_features": torch.randn(2, 8, 32), "labels": torch.randint(3, WORDS, (2, 7))}


def _images() -> Batch:
    return {"x": torch.randn(4, 3, 8, 8), "labels": torch.randint(5, (4,))}


def _sequences() -> Batch:
    return {"x": torch.randn(4, 6, 6), "labels": torch.randint(5, (4,))}


BUILDERS = {"llama": _llama, "qwen2": _qwen2, "gpt2": _gpt2, "bert": _bert, "mixtral": _mixtral, "vit": _vit}
SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("llama", _llama, _tokens, "foreach"),
        Subject("qwen2", _qwen2, _tokens, "foreach"),
        Subject("gpt2", _gpt2, _tokens, "adamw"),
        Subject("bert", _bert, _padded_tokens, "fused"),
        Subject("mixtral", _mixtral, _tokens, "foreach"),
        Subject("t5", _t5, _to_translate, "foreach"),
        Subject("vit", _vit, _pixels, "sgd"),
        Subject("whisper", _whisper, _sounds, "fused"),
        Subject("cnn", ConvNet, _images, "sgd", loss_of_labels),
        Subject("lstm", Recurrent, _sequences, "adamw", loss_of_labels),
    )
}
