from typing import Any
def figure(chart: Any, answer: Any) -> dict[str, Any]:
    return {}
