"""What staff fills in about jobs: decisions, pauses, policies."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from accounts.staff_pages import StaffForm
from jobs import policy_changes, registry
from jobs.evidence import DECISIONS
from jobs.models import JobPolicy, Pause, PauseScope
from jobs.pauses import Target
from jobs.request import MAX_REASON

# Which field names what is paused, by scope.
NEEDED = {PauseScope.TYPE: "job_type", PauseScope.SERVER: "server", PauseScope.SITE: "site"}


def _types() -> list[tuple[str, str]]:
    return [(name, name) for name in registry.known_types()]


class ReasonForm(forms.Form):
    """Why."""

    reason = forms.CharField(
        max_length=MAX_REASON,
        widget=forms.TextInput(attrs={"size": 80, "autocomplete": "off"}),
        help_text="Kept in the history and in the audit trail.",
    )


class ResolveForm(ReasonForm):
    """What becomes of jobs that wait for a person, and why."""

    outcome = forms.ChoiceField(
        choices=[(decision.value, f"{decision.value}: {said}") for decision, said in DECISIONS.items()],
        widget=forms.RadioSelect,
    )
    field_order = ("outcome", "reason")


class PauseForm(StaffForm):
    """What is to be paused, and why."""

    job_type = forms.ChoiceField(required=False, label="Type", choices=lambda: [("", "---------"), *_types()])

    class Meta:
        model = Pause
        fields = ("scope", "job_type", "server", "site", "reason")

    def clean(self) -> dict[str, Any]:
        """Ask for what the scope needs, and for nothing else."""
        values = super().clean() or self.cleaned_data
        needed = NEEDED.get(PauseScope(values["scope"])) if values.get("scope") else None
        for name in NEEDED.values():
            if name == needed and not values.get(name):
                self.add_error(name, "Say which one.")
            if name != needed and values.get(name):
                self.add_error(name, "Leave this empty, or choose its scope.")
        return values

    def target(self) -> Target:
        """Give what a valid form is about."""
        values = self.cleaned_data
        return Target(PauseScope(values["scope"]), values["job_type"], values["server"], values["site"])


class JobPolicyForm(StaffForm):
    """What differs from a type's declared defaults."""

    class Meta:
        model = JobPolicy
        fields = (
            "job_type",
            "priority",
            "max_attempts",
            "retry_delays",
            "timeout_seconds",
            "concurrency",
            "concurrency_per_server",
        )

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if not self.errors:
            try:
                policy_changes.require_bounds(self.instance)
            except ValidationError as error:
                self.add_error(None, error)
