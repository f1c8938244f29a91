"""What people and programs see: shows, never decides. Imports the data model and the errors alone.

Plugin folder: each `x.py` writes comparison tables in one format. Its `PLUGIN` is a `TableFormat`:

    suffix: str                                      ".csv"
    write(table: Table, path: Path) -> Written       the files written, and sentences on what a reader should know

Every format holds every cell of the table in the same order. A file is written under a temporary
name in its folder, which is made if need be, and renamed when whole; it replaces a file of its
name. A folder that cannot be written and a full disk raise `RunWriteError` and leave nothing behind.
`terminal.py` prints runs, records and tensors.
"""
