"""The callback for the Trainer of Lightning, in the real Trainer."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torchparity

pytest.importorskip("lightning")
pytestmark = pytest.mark.filterwarnings("ignore")
DATA = TensorDataset(torch.arange(16.0).reshape(8, 2), torch.ones(8, 1))


def regression(fails_at=None):
    import lightning

    class Regression(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.encoder = nn.Linear(2, 4)
            self.decoder = nn.Linear(4, 1)

        def loss(self, batch):
            return nn.functional.mse_loss(self.decoder(torch.tanh(self.encoder(batch[0]))), batch[1])

        def training_step(self, batch, number):
            loss = self.loss(batch)
            if number == fails_at:
                raise ValueError("no more")
            return loss

        def validation_step(self, batch, number):
            self.loss(batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Regression()


def fit(model, callback, **arguments):
    import lightning

    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
        **arguments,
    )
    trainer.fit(model, DataLoader(DATA, batch_size=2), DataLoader(DATA, batch_size=4))


def test_the_callback_records_what_capture_records(tmp_path):
    from torchparity.integrations.lightning import ParityCallback

    fit(regression(), ParityCallback(tmp_path / "callback", steps=[0, 2]))
    parts = torchparity.open_run(tmp_path / "callback").parts

    model = regression()
    with torchparity.capture(tmp_path / "capture", model=model):
        model.loss(DATA[:2]).backward()
    (by_hand,) = torchparity.open_run(tmp_path / "capture").parts
    modules = {name for name in by_hand.records if name.startswith("Module.")}

    assert [part.step for part in parts] == [0, 2]
    assert "Module.encoder.Linear.backward.0" in modules
    for part in parts:
        assert {name for name in part.records if name.startswith("Module.")} == modules


def test_a_step_has_all_batches_that_are_accumulated_and_no_evaluation(tmp_path):
    from torchparity.integrations.lightning import ParityCallback

    fit(regression(), ParityCallback(tmp_path / "run"), accumulate_grad_batches=2, val_check_interval=2)

    parts = torchparity.open_run(tmp_path / "run").parts
    assert [part.step for part in parts] == [0, 1]
    for part in parts:
        calls = [name for name in part.records if name.startswith("Module.encoder.Linear.forward")]
        assert calls == ["Module.encoder.Linear.forward.0", "Module.encoder.Linear.forward.1"]


def test_a_training_that_fails_leaves_what_was_recorded(tmp_path, capsys):
    from torchparity.integrations.lightning import ParityCallback

    with pytest.raises(ValueError, match="no more"):
        fit(regression(fails_at=1), ParityCallback(tmp_path / "run"))

    assert "step 1 was cut off by ValueError" in capsys.readouterr().out
    first = torchparity.open_run(tmp_path / "run").parts[0]
    assert "Module.encoder.Linear.backward.0" in first.records
