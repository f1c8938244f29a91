"""Every animal of the zoo through the check: nothing right is failed, and nearly everything is judged."""

from __future__ import annotations

import pytest
import torch

from tests.check.recorded_zoo import checked_zoo
from torchparity.check.judging import Status


@pytest.mark.parametrize("data", ["real", "random"])
@pytest.mark.filterwarnings("ignore")
def test_no_api_of_the_zoo_is_failed_in_float32_and_97_percent_are_judged(data):
    checked = list(checked_zoo(torch.float32, data))

    assert [each.result for each in checked if each.result.status is Status.ERROR] == []
    apis = {each.case.api for each in checked}
    judged = {each.case.api for each in checked if each.result.status is not Status.SKIP}
    assert len(judged) >= 0.97 * len(apis)
    assert all(each.result.message for each in checked if each.result.status is Status.SKIP)
