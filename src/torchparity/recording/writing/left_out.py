"""Sentences about what a recording lacks, for the readers of a step and for the closing line."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from torchparity.text import counted


class LeftOut:
    """Collects sentences about tokens that did not come, a step that was cut off and gradients that came too late."""

    def __init__(self) -> None:
        self._sentences: dict[str, None] = {}
        self._late_gradients = 0  # over all steps
        self._was_cut_off = False  # the last step

    def add(self, sentences: Iterable[str]) -> None:
        """Add sentences, each once."""
        self._sentences.update(dict.fromkeys(sentences))

    def cut_off(self, step: int, error: BaseException) -> None:
        """Note that an error of the user's ended the training within a step."""
        self._was_cut_off = True
        self.add([f"step {step} was cut off by {type(error).__name__}."])

    def of_step(self, failures: Iterable[str], late_gradients: int) -> list[str]:
        """Return what a step lacks: what failed in it, what is lacking anyway, and the gradients that came too late."""
        self._late_gradients += late_gradients
        return [*failures, *self._sentences, *_too_late(late_gradients)]

    def of_recording(
        self, failures: Iterable[str], late_gradients: int, *, asked: Collection[int], first: int, last: int
    ) -> list[str]:
        """Return what the whole recording lacks; `late_gradients` have come since the last step was written.

        `asked` are the steps that were asked for, `first` and `last` those that came.
        """
        too_late = _too_late(self._late_gradients + late_gradients)
        return [*failures, *self._sentences, *too_late, *self._missed(asked, first, last)]

    def _missed(self, asked: Collection[int], first: int, last: int) -> list[str]:
        missed = [step for step in asked if not first <= step <= last]
        if not missed:
            return []
        if self._was_cut_off:
            return [f"step{'' if len(missed) == 1 else 's'} {', '.join(map(str, missed[:5]))} did not come."]
        came = "no step" if last < first else f"step {last}" if last == first else f"steps {first} to {last}"
        wanted = f"step {missed[0]} was" if len(missed) == 1 else f"steps {', '.join(map(str, missed[:5]))} were"
        return [f"{wanted} asked for, and {came} came."]


def _too_late(gradients: int) -> list[str]:
    return [f"{counted(gradients, 'gradient')} came too late, for calls of steps that had ended."] if gradients else []
