"""Two models and five kinds of fault that nobody looks at while the judging is worked on: `--held-out` runs them.

They are as unlike the rest as they can be: a convolutional encoder of raw audio with a weight norm and the CTC loss,
and a state-space model with a scan; rows in another order, small values flushed to zero, an argument of the loss, a
weight that is not trained, and a batch in another order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from tests.faultbed.catalogue import Catalogue
from tests.faultbed.fault import Fault, Truth
from tests.faultbed.plant import PlantedCall, argument, wrong_output
from tests.faultbed.program import Batch, Program, Subject
from torchparity.comparing.judging.verdict import Kind


def _wav2vec2() -> nn.Module:
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        vocab_size=12,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        conv_dim=(8, 8),
        conv_kernel=(8, 4),
        conv_stride=(4, 2),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        mask_time_prob=0.0,
        layerdrop=0.0,
        ctc_loss_reduction="mean",
        do_stable_layer_norm=False,
    )
    return Wav2Vec2ForCTC(config)


def _sounds() -> Batch:
    return {"input_values": torch.randn(2, 256), "labels": torch.randint(1, 12, (2, 5))}


def _mamba() -> nn.Module:
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=32, hidden_size=16, state_size=4, num_hidden_layers=2, expand=2, time_step_rank=2)
    return MambaForCausalLM(config)


def _tokens() -> Batch:
    tokens = torch.randint(32, (2, 6))
    return {"input_ids": tokens, "labels": tokens}


SUBJECTS = {
    subject.name: subject
    for subject in (Subject("wav2vec2", _wav2vec2, _sounds, "adamw"), Subject("mamba", _mamba, _tokens, "foreach"))
}


def _matmuls(catalogue: Catalogue, program: Program) -> Sequence[str]:
    return catalogue.calls("Functional.linear", "Functional.conv2d", "Functional.conv1d", "Torch.matmul")


def _swap_rows(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    def swap(output: torch.Tensor) -> torch.Tensor:
        rows = output.reshape(-1, output.shape[-1])
        rows[[0, 1]] = rows[[1, 0]]
        return rows.reshape(output.shape)

    program.below.append(PlantedCall(place, wrong_output(swap)))
    return Truth(catalogue.same_call(place), frozenset({Kind.OPERATOR}))


def _flush(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    def flush(output: torch.Tensor) -> torch.Tensor:
        return output.masked_fill(output.abs() < amount * output.abs().max(), 0.0)

    program.below.append(PlantedCall(place, wrong_output(flush)))
    return Truth(catalogue.same_call(place), frozenset({Kind.OPERATOR}))


def _losses(catalogue: Catalogue, program: Program) -> Sequence[str]:
    return catalogue.calls("Functional.cross_entropy")


def _smooth_labels(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    program.above.append(PlantedCall(place, argument("label_smoothing", 7, amount)))
    return Truth(catalogue.same_call(place), frozenset({Kind.ARGUMENT}))


def _linears(catalogue: Catalogue, program: Program) -> Sequence[str]:
    return [name for name in catalogue.calls("Functional.linear") if len(catalogue.same_call(name)) == 2]


def _freeze(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    (module,) = catalogue.same_call(place) - {place}
    path = module.removeprefix("Module.").rsplit(".", 3)[0]
    program.model.get_parameter(f"{path}.weight").requires_grad_(False)
    of_parameters = module.replace(".forward.", ".parameters_grad.")
    return Truth(catalogue.same_backward(place) | {of_parameters}, frozenset({Kind.MISSING_GRADIENT}), alone=True)


def _data(catalogue: Catalogue, program: Program) -> Sequence[str]:
    return [next(iter(program.batches[0]))]


def _reorder_batch(program: Program, catalogue: Catalogue, place: str, amount: float) -> Truth:
    program.batches = [{name: value.flip(0) for name, value in batch.items()} for batch in program.batches]
    return Truth(frozenset(), frozenset({Kind.DATA}))  # inputs or labels: the first record that takes either


FAULTS = (
    Fault("rows swapped", _matmuls, _swap_rows),
    Fault("small values flushed", _matmuls, _flush, (0.2, 3e-3, 3e-4)),
    Fault("label smoothing", _losses, _smooth_labels, (0.1, 1e-3, 1e-5)),
    Fault("frozen weight", _linears, _freeze),
    Fault("batch order", _data, _reorder_batch),
)
