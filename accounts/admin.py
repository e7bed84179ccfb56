"""Customers, members, hosting plans and people, for staff. Every change goes by its own function."""

from http import HTTPStatus
from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.db.models import Model, Q
from django.http import HttpRequest, HttpResponse

from accounts import plan_changes, tenancy, user_changes
from accounts.models import Customer, HostingPlan, Membership, User
from accounts.roles import Role
from accounts.staff_pages import OperatorAdmin, StaffAdmin, StaffInline, actor_of, link_to


class MembersInline(StaffInline):
    """Who belongs to a customer; changed on the pages of memberships."""

    model = Membership
    fields = ("user", "role")
    extra = 0
    can_delete = False
    show_change_link = True

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Not here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Not here."""
        return False


@admin.register(Customer)
class CustomerAdmin(OperatorAdmin):
    """Customers: added with code and name; the hosting plan can be changed later."""

    list_display = ("code", "name", "plan", "created_at")
    list_select_related = ("plan",)
    list_filter = ("plan",)
    search_fields = ("code", "name")
    search_help_text = "The beginning of a code or name."
    fields = ("code", "name", "plan")
    inlines = (MembersInline,)

    def matching(self, term: str) -> Q:
        """Search by the beginning, so that fields of other pages can be filled by typing."""
        return Q(code__istartswith=term) | Q(name__istartswith=term)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """Keep the code, which the trail uses."""
        return ("code", "name") if obj else ()

    def save_model(self, request: HttpRequest, obj: Customer, form: Any, change: bool) -> None:
        """Add a customer, or change its hosting plan."""
        if change:
            plan_changes.set_plan(actor_of(request), obj, obj.plan)
            return
        made = tenancy.create_customer(actor_of(request), obj.code, obj.name, obj.plan)
        obj.pk, obj.created_at = made.pk, made.created_at


@admin.register(Membership)
class MembershipAdmin(OperatorAdmin):
    """Who belongs to which customer, and as what."""

    list_display = ("__str__", "customer_link", "user_link", "role")
    list_select_related = ("customer", "user")
    list_filter = ("role",)
    search_fields = ("customer__code", "user__username")
    search_help_text = "A customer's code or a user's name."
    autocomplete_fields = ("customer", "user")
    actions = None

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """Change the role alone; another person is another membership."""
        return ("customer", "user") if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """A membership can end: the trail names people and customers, not this row."""
        allowed = request.user.has_perm("accounts.delete_membership")
        return allowed and actor_of(request).may_operate

    def save_model(self, request: HttpRequest, obj: Membership, form: Any, change: bool) -> None:
        """Make the user a member, or change the role."""
        obj.pk = tenancy.set_role(actor_of(request), obj.customer, obj.user, Role(obj.role)).pk

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        """End the membership."""
        tenancy.remove_member(actor_of(request), obj)

    @admin.display(description="customer")
    def customer_link(self, membership: Membership) -> str:
        """Link to the customer."""
        return link_to(membership.customer)

    @admin.display(description="user")
    def user_link(self, membership: Membership) -> str:
        """Link to the person."""
        return link_to(membership.user)


@admin.register(HostingPlan)
class HostingPlanAdmin(OperatorAdmin):
    """What customers can buy."""

    list_display = ("code", "name", "freshness_hours", "recovery_point_hours", "restore_time", "most_sites")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """Keep the code, which the trail uses."""
        return ("code",) if obj else ()

    def save_model(self, request: HttpRequest, obj: HostingPlan, form: Any, change: bool) -> None:
        """Add or change the plan."""
        plan_changes.save_plan(actor_of(request), obj)


@admin.register(User)
class PeopleAdmin(StaffAdmin, UserAdmin):
    """People who log in. Nobody is deleted: who leaves becomes inactive."""

    list_display = ("username", "first_name", "last_name", "is_staff", "is_active", "last_login")
    list_filter = ("is_staff", "is_superuser", "is_active")
    search_fields = ("username", "email")
    search_help_text = "The beginning of a username, or a whole address."
    readonly_fields = ("last_login", "date_joined")

    def matching(self, term: str) -> Q:
        """Search by the beginning of the name, so that fields of other pages can be filled by typing."""
        return Q(username__istartswith=term) | Q(email=term)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whoever makes people could make a superuser, so only superusers do."""
        return bool(getattr(request.user, "is_superuser", False))

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Whoever changes people could make a superuser, so only superusers do."""
        return bool(getattr(request.user, "is_superuser", False))

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Add or change a person."""
        user_changes.save_user(actor_of(request), obj, list(form.changed_data))

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Give rights, and record which the person has now."""
        super().save_related(request, form, formsets, change)
        if {"groups", "user_permissions"} & set(form.changed_data):
            user_changes.record_rights(actor_of(request), form.instance)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Set a person's password, and record that it was set."""
        answer = super().user_change_password(request, id, form_url)
        if request.method == "POST" and answer.status_code == HTTPStatus.FOUND:
            user_changes.record_password_change(actor_of(request), User.objects.get(pk=id))
        return answer
