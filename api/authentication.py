"""Who calls the API: by a token that is still in force."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.plumbing import build_bearer_security_scheme_object
from knox.auth import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request


class CurrentTokenAuthentication(TokenAuthentication):
    """A token is worth nothing once its person has a newer password."""

    def authenticate(self, request: Request) -> Any:
        """Give user and token, or None without one. Raises AuthenticationFailed."""
        try:
            found = super().authenticate(request)
        except UnicodeError as error:
            raise AuthenticationFailed("The token is not plain ASCII.") from error
        if found is None:
            return None
        user, token = found
        if user.password_changed_at is not None and token.created < user.password_changed_at:
            raise AuthenticationFailed("The password was changed since; log in again.")
        return user, token


class CurrentTokenScheme(OpenApiAuthenticationExtension):
    """How the OpenAPI document describes it."""

    target_class = "api.authentication.CurrentTokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> Any:
        """Describe the header."""
        return build_bearer_security_scheme_object("Authorization", "Token")
