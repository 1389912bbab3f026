def here():
    return "nested"
