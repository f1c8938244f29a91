"""The callback for the Trainer of transformers, in the real Trainer."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import torchparity

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
TOKENS = torch.arange(32).reshape(4, 8)


def small_model():
    config = transformers.GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=1)
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(config).eval()  # no dropout


def trainer_of(model, folder, callback, **arguments):
    settings = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=2,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        use_cpu=True,
        logging_strategy="no",
        **arguments,
    )
    data = [{"input_ids": tokens, "labels": tokens} for tokens in TOKENS]
    return transformers.Trainer(model=model, args=settings, train_dataset=data, eval_dataset=data, callbacks=[callback])


@pytest.mark.filterwarnings("ignore")
def test_the_callback_records_what_capture_records(tmp_path):
    from torchparity.integrations.transformers import ParityCallback

    callback = ParityCallback(tmp_path / "callback", steps="0-1")
    trainer_of(small_model(), tmp_path / "out", callback, max_steps=3, gradient_accumulation_steps=2).train()
    parts = torchparity.open_run(tmp_path / "callback").parts

    model = small_model()
    with torchparity.capture(tmp_path / "capture", model=model):
        model.train()
        model(input_ids=TOKENS[:2], labels=TOKENS[:2]).loss.backward()
    (by_hand,) = torchparity.open_run(tmp_path / "capture").parts
    modules = {name for name in by_hand.records if name.startswith("Module.")}

    assert [part.step for part in parts] == [0, 1]
    assert {name for name in parts[0].records if name.startswith("Module.") and name.endswith(".0")} == modules
    assert "Module.GPT2LMHeadModel.forward.1" in parts[0].records  # the second of the batches that are accumulated
    assert "Module.GPT2LMHeadModel.forward.2" not in parts[0].records


@pytest.mark.filterwarnings("ignore")
def test_an_evaluation_between_steps_is_left_out(tmp_path):
    from torchparity.integrations.transformers import ParityCallback

    trainer = trainer_of(
        small_model(),
        tmp_path / "out",
        ParityCallback(tmp_path / "run"),
        max_steps=2,
        eval_strategy="steps",
        eval_steps=1,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()

    parts = torchparity.open_run(tmp_path / "run").parts
    assert [part.step for part in parts] == [0, 1]
    assert all("Module.GPT2LMHeadModel.forward.1" not in part.records for part in parts)


class Failing(transformers.TrainerCallback):
    """Fails after the gradients of step 1 are there, before the optimizer uses them."""

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if state.global_step == 1:
            raise ValueError("no more")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["forward", "optimizer"])
def test_a_training_that_fails_leaves_no_hooks_and_what_was_recorded(tmp_path, capsys, place):
    from torchparity.integrations.transformers import ParityCallback

    model = small_model()
    trainer = trainer_of(model, tmp_path / "out", ParityCallback(tmp_path / "run"), max_steps=3)
    if place == "optimizer":
        trainer.add_callback(Failing())
    else:
        data = list(trainer.train_dataset)
        trainer.train_dataset = [*data[:2], {"input_ids": TOKENS[0] + 10**6, "labels": TOKENS[0]}, data[3]]
        trainer._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(trainer.train_dataset)
    before = torch._C._len_torch_function_stack()

    with pytest.raises((ValueError, IndexError)) as failure:
        trainer.train()

    assert f"step 1 was cut off by {failure.type.__name__}" in capsys.readouterr().out
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch._C._len_torch_function_stack() == before
    assert "_run_epoch" not in vars(trainer) and "training_step" not in vars(trainer)
    first = torchparity.open_run(tmp_path / "run").parts[0]
    assert "Module.GPT2LMHeadModel.backward.0" in first.records


def test_importing_torchparity_imports_no_trainer():
    names = "('torch', 'transformers', 'lightning', 'accelerate')"
    code = f"import sys, torchparity.integrations; print([name for name in {names} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
