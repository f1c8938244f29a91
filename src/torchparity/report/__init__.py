"""Shows results to people and programs, and decides nothing. Imports the data model and the errors alone.

`formats/` is a plugin folder: each file writes comparison tables in one format. Its `PLUGIN` is a `TableFormat`:

    suffix: str                                      ".csv"
    write(table: Table, path: Path) -> Written       the files written, and sentences on what a reader should know

Every format holds every cell of the table in the same order. A file is written under a temporary
name in its folder, which is created if need be, and renamed when complete; it replaces a file of its
name. A folder that cannot be written and a full disk raise `RunWriteError` and leave nothing behind.
`terminal.py` prints runs, records and tensors, `workbook/` has the inside of an xlsx file.
"""
