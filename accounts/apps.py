from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"
    verbose_name = "Customers and people"

    def ready(self) -> None:
        from accounts import login_audit  # noqa: PLC0415 - models exist only now

        login_audit.connect()
