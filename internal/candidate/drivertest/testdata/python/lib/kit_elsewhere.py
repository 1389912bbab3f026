def here():
    return "elsewhere"
