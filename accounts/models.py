"""Tenancy: who the customers are, who belongs to them, and what their hosting plan grants."""

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone

from accounts.roles import Role


class User(AbstractUser):
    """A person who logs in: a member of customers, or staff."""

    password_changed_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Older API tokens are worth nothing.",
    )

    def set_password(self, raw_password: str | None) -> None:
        """Take the new password, and let what the old one opened be closed."""
        super().set_password(raw_password)
        self.password_changed_at = timezone.now()


class RestoreTimeClass(models.TextChoices):
    """How soon a restore is promised; orders restores within CRITICAL."""

    BEST_EFFORT = "BEST_EFFORT", "best effort"
    PRIORITY = "PRIORITY", "priority restore"
    FIRST = "FIRST", "priority recovery"


def _hours(default: int) -> models.PositiveIntegerField:
    return models.PositiveIntegerField(default=default, validators=[MinValueValidator(1)])


def _most(default: int) -> models.PositiveIntegerField:
    return models.PositiveIntegerField(default=default, validators=[MaxValueValidator(10_000)])


class HostingPlan(models.Model):
    """What a customer has bought: freshness, recovery objectives, quotas, bounds of retention."""

    code = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    freshness_hours = _hours(24)
    recovery_point_hours = _hours(24)
    restore_time = models.CharField(
        max_length=20, choices=RestoreTimeClass.choices, default=RestoreTimeClass.BEST_EFFORT
    )
    allows_weekly = models.BooleanField(default=False)
    allows_monthly = models.BooleanField(default=False)
    most_sites = _most(10)
    most_storage_gib = models.PositiveIntegerField(default=10)
    most_daily_kept = _most(7)
    most_weekly_kept = _most(4)
    most_monthly_kept = _most(12)

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return self.name


class Customer(models.Model):
    """A tenant."""

    code = models.SlugField(unique=True, help_text="Short name, used in links and in the audit trail.")
    name = models.CharField(max_length=200)
    plan = models.ForeignKey(HostingPlan, on_delete=models.PROTECT, related_name="customers")
    created_at = models.DateTimeField(auto_now_add=True)
    members = models.ManyToManyField(User, through="Membership", related_name="customers")

    class Meta:
        ordering: ClassVar = ["code"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """That a user belongs to a customer, and as what."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=[(role.value, role.value.lower()) for role in Role])

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "customer"], name="one_membership_per_customer")
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.customer}"
