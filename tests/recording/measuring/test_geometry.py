"""Views of every kind are measured and stored as they show."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.runs import values
from tests.support.statistics import assert_same
from torchparity import from_torch, open_run
from torchparity.kernels import reference
from torchparity.kernels.checksums import crc_checksum
from torchparity.recording import capture


def test_a_conjugate_is_not_its_origin(tmp_path):
    z = torch.tensor([1 + 2j])
    with capture(tmp_path, task="tensor"):
        torch.sin(z)
        torch.sin(z.conj())
        torch.abs(z.imag)
        torch.abs(z.conj().imag)

    assert values(tmp_path, "Torch.sin.1.forward") == [1 - 2j]
    assert values(tmp_path, "Torch.abs.1.forward") == [-2]


BROKEN = torch.tensor([torch.nan, 1.0, torch.inf, -torch.inf, 0.0])

VIEWS = {
    "overlapping": torch.arange(10.0).as_strided((4, 3), (2, 1)),
    "expanded": torch.arange(10.0).expand(3, 10),
    "expanded-twice": torch.arange(10.0).view(2, 1, 5).expand(2, 4, 5).expand(3, 2, 4, 5),
    "expanded-number": torch.tensor(3.0).expand(2, 3),
    "expanded-nonfinite": BROKEN.expand(4, 5),
    "expanded-integers": torch.arange(10).expand(3, 10),
    "expanded-bools": (torch.arange(10) > 3).expand(3, 10),
    "expanded-halves": torch.arange(10.0).to(torch.bfloat16).expand(3, 10),
    "expanded-complex": torch.complex(torch.arange(3.0), torch.ones(3)).conj().expand(2, 3),
    "windows": torch.arange(10.0).unfold(0, 4, 1),
    "steps": torch.arange(10.0)[1::3],
    "empty": torch.empty(0, 3),
    "expanded-empty": torch.zeros(1).expand(0, 5),
}


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("summary", ["statistics", "md5"])
@pytest.mark.parametrize("view", list(VIEWS))
def test_views_of_every_kind_are_measured_and_stored_as_they_show(view, task, summary, tmp_path):
    class Nothing(nn.Module):
        def forward(self, tensor):
            return None

    model, shown = Nothing(), from_torch(VIEWS[view])
    with capture(tmp_path, model=model, task=task, summary_mode=summary):
        model(VIEWS[view])

    part = open_run(tmp_path).part()
    leaf = part.records["Module.Nothing.forward.0"].input_args[0]
    assert_same(leaf.statistics, reference.statistics(shown), 1e-6)
    assert leaf.checksum == (crc_checksum(shown) if summary == "md5" else None)
    if task == "tensor":
        assert part.tensor(leaf).raw().tobytes() == shown.raw().tobytes()
