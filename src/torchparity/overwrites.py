def overwrites(record: str, item: str) -> bool:
    return item == "input.out" or item.startswith("input.out.")
