"""Mistakes that a type checker must see; mypy complains about an ignored error that is not there."""

from __future__ import annotations

import torchparity as tp

tp.capture("run", lst=["relu"])  # type: ignore[call-arg]
tp.capture("run", list="relu")  # type: ignore[arg-type]
tp.capture("run", task="tenosr")  # type: ignore[arg-type]
tp.capture("run", summary_mode="md6")  # type: ignore[arg-type]
tp.capture("run", tensor={"diff_num": 1})  # type: ignore[typeddict-unknown-key]
tp.PrecisionDebugger(levle="L1")  # type: ignore[call-arg]
tp.PrecisionDebugger(level="L3")  # type: ignore[arg-type]
tp.compare("candidate", "baseline", hilight=True)  # type: ignore[call-overload]
tp.campture("run")  # type: ignore[attr-defined]
