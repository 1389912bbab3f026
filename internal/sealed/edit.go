package sealed
const templateMark = "not written yet: say what must hold"
