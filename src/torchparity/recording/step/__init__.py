"""One step in the making: the recorder, drafts of records, values saved by hand, and the step that waits to be written."""
