"""The inside of an xlsx file: the workbook around the rows, and the rows."""
