def colour_index(model: str) -> int:
    return 0
