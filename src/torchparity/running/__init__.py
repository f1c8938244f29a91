"""Record a script that knows nothing of torchparity, as `torchparity run` does.

    script         the program: a file or a module, run as `python` would run it
    torch_import   the moment at which the script imports torch; nothing of ours loads it before
    events         what the script does that says where its steps are
    made_objects   its modules and optimizers: who is inside whom, who is trained
    step_rule      where steps begin and end, from those events
    model          the model: the module that is trained
    stopping       its end after the last step, from any thread; threads: those that it leaves behind
    earlier_tools  the import names of earlier tools, for scripts that record by them
    script_run     all of it together, and the recording

Importing this package imports neither torch nor NumPy: a script may set what they read when they load.
"""

from torchparity.running.asked import Asked
from torchparity.running.earlier_tools import install
from torchparity.running.entry import run_script, run_unrecorded
from torchparity.running.script import Script, find_script

__all__ = ["Asked", "Script", "find_script", "install", "run_script", "run_unrecorded"]
