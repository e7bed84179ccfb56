"""How much of the engine's test work may run at once: low enough to be reached all the time."""

OVERALL = 4
BY_TYPE = {"ENGINE_CHANGE": 1, "ENGINE_COPY": 2}
