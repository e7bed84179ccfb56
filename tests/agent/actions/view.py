"""What the actions get here in place of the agent's own operation: it remembers, and can stop."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.exceptions import OperationCancelled
from agent.policy import Policy

NOTHING: Mapping[str, Any] = {}


@dataclass
class RecordingView:
    """An OperationView that keeps what it is told; `cancel_at` names the checkpoint that ends the operation.

    `on_progress` is called with each step's text before the step is done.
    """

    policy: Policy
    cancel_at: str = ""
    on_progress: Callable[[str], object] = lambda step: None
    on_checkpoint: Callable[[str], object] = lambda name: None
    request_id: str = "00000000-0000-4000-8000-000000000000:1:test"
    site_id: int | None = 1
    deadline: float = field(default_factory=lambda: time.monotonic() + 600)
    steps: list[tuple[int, str]] = field(default_factory=list)
    checkpoints: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def progress(self, percent: int, step: str) -> None:
        self.steps.append((percent, step))
        self.on_progress(step)

    def checkpoint(self, name: str) -> None:
        self.checkpoints.append(name)
        self.on_checkpoint(name)
        if name == self.cancel_at:
            raise OperationCancelled

    def event(self, message: str, data: Mapping[str, Any] = NOTHING) -> None:
        self.events.append(message)
