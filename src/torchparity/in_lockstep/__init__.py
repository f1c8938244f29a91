"""Runs two models side by side on the same inputs and compares them in memory; nothing is written.

Not called `lockstep`: the public function has that name, and importing a package would hide it.
"""

from torchparity.in_lockstep.entry import lockstep
from torchparity.in_lockstep.inputs import Inputs
from torchparity.in_lockstep.options import LockstepFields
from torchparity.in_lockstep.result import LockstepResult

__all__ = ["Inputs", "LockstepFields", "LockstepResult", "lockstep"]
