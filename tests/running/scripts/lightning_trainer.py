"""The Trainer of Lightning, with a validation before and after the training."""

import hashlib
import logging
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def fingerprint(model):
    state = b"".join(value.float().numpy().tobytes() for value in model.state_dict().values())
    return hashlib.sha256(state).hexdigest()


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 8)
        self.decoder = nn.Linear(8, 1)

    def predict(self, inputs):
        return self.decoder(torch.relu(self.encoder(inputs)))

    def training_step(self, batch, number):
        inputs, wanted = batch
        loss = nn.functional.mse_loss(self.predict(inputs), wanted)
        print("batch", number, "loss", loss.item())
        return loss

    def validation_step(self, batch, number):
        inputs, wanted = batch
        print("validation", nn.functional.mse_loss(self.predict(inputs), wanted).item())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


lightning.seed_everything(5, verbose=False)
data = TensorDataset(torch.randn(6, 6), torch.randn(6, 1))
held_out = TensorDataset(torch.randn(4, 6), torch.randn(4, 1))
model = Regression()
trainer = lightning.Trainer(
    max_epochs=1,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(data, batch_size=2), DataLoader(held_out, batch_size=2))
print("weights", fingerprint(model))
