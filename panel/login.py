"""The door of the panel."""

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

TOO_MANY_REQUESTS = 429


class PanelLoginForm(AuthenticationForm):
    """Name and password; says the same for an unknown name as for a wrong password."""

    error_messages = {  # noqa: RUF012 - a plain dict of the class, as in the class above it
        "invalid_login": "Name and password do not fit.",
        "inactive": "Name and password do not fit.",
    }


@method_decorator(never_cache, name="dispatch")
class PanelLogin(LoginView):
    """Log in, then go to `next` where that is a page of this very host, else home."""

    template_name = "panel/login.html"
    authentication_form = PanelLoginForm
    redirect_authenticated_user = True

    def form_invalid(self, form: Any) -> HttpResponse:
        """Show the form again; say so where the login is closed for a while."""
        if not getattr(self.request, "axes_locked_out", False):
            return super().form_invalid(form)
        # Otherwise axes' middleware puts a bare page in the place of this one.
        self.request.axes_locked_out = False  # type: ignore[attr-defined]
        context = self.get_context_data(form=form, locked=True)
        return self.render_to_response(context, status=TOO_MANY_REQUESTS)
