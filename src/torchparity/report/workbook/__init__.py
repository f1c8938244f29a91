"""The inside of an xlsx file: the workbook around the rows, and the rows."""

from torchparity.report.workbook.book import MOST_ROWS, CutCell, Sheet, write_book

__all__ = ["MOST_ROWS", "CutCell", "Sheet", "write_book"]
