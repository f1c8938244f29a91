"""One step in the making: the recorder, drafts of records, values saved by hand, the step that waits for its writer."""
