"""All settings, in one file. Every variable is described in docs/reference/settings.md."""

from pathlib import Path

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from chp_site import environment

BASE_DIR = Path(__file__).resolve().parent.parent
env = environment.load()

# --- Places and keys ---------------------------------------------------------------------------
CHP_STATE_DIR = Path(env.str("CHP_STATE_DIR", "/var/lib/cresignsys"))
CHP_KEYS_DIR = Path(env.str("CHP_KEYS_DIR", str(CHP_STATE_DIR / "keys")))
CHP_AGENT_KEYS_DIR = CHP_KEYS_DIR / "agents"
CHP_AUDIT_KEY_FILE = Path(env.str("CHP_AUDIT_KEY_FILE", str(CHP_KEYS_DIR / "audit.key")))
CHP_AUDIT_ANCHOR_FILE = Path(env.str("CHP_AUDIT_ANCHOR_FILE", str(CHP_STATE_DIR / "anchors" / "audit.jsonl")))
SECRET_KEY = environment.secret_from(
    Path(env.str("CHP_SECRET_KEY_FILE", str(CHP_KEYS_DIR / "secret.key"))), "CHP_SECRET_KEY_FILE"
)

# --- Web ---------------------------------------------------------------------------------------
DEBUG = env.bool("CHP_DEBUG", False)
ALLOWED_HOSTS = env.list("CHP_ALLOWED_HOSTS", ["localhost", "127.0.0.1"])
CHP_HTTPS = env.bool("CHP_HTTPS", True)
CSRF_TRUSTED_ORIGINS: list[str] = env.list("CHP_TRUSTED_ORIGINS", [])
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = CHP_HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_NAME = "chp_session"
SESSION_COOKIE_AGE = environment.whole(env, "CHP_SESSION_HOURS", 12, 1, 24 * 14) * 3600
SECURE_HSTS_SECONDS = 31_536_000 if CHP_HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = CHP_HTTPS
# A proxy's word on the client's scheme counts only where the operator says that there is a proxy.
if env.bool("CHP_BEHIND_PROXY", False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

INSTALLED_APPS = [
    "panel",
    "api",
    "backups",
    "provisioning",
    "jobs",
    "sites",
    "accounts",
    "audit",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "csp",
    "django_filters",
    "django_htmx",
    "django_q",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "knox",
    "rest_framework",
    # Last: its admin module takes away pages that others have registered.
    "chp_site",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "chp_site.middleware.require_length",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "chp_site.middleware.record_denials",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "chp_site.urls"
WSGI_APPLICATION = "chp_site.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
STATIC_URL = "static/"
STATIC_ROOT = Path(env.str("CHP_STATIC_ROOT", str(CHP_STATE_DIR / "static")))
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True

# --- People ------------------------------------------------------------------------------------
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "panel:login"
LOGIN_REDIRECT_URL = "panel:home"
LOGOUT_REDIRECT_URL = "panel:login"
AXES_FAILURE_LIMIT = environment.whole(env, "CHP_LOGIN_FAILURES", 10, 3, 1000)
AXES_COOLOFF_TIME = 1  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_USERNAME_CALLABLE = "accounts.login_names.tried_name"
AXES_ENABLE_ACCESS_FAILURE_LOG = False
AXES_VERBOSE = False
# The peer's own address counts: headers that a client can write do not (panel-security S14).
AXES_IPWARE_META_PRECEDENCE_ORDER = ["REMOTE_ADDR"]

# --- Database ----------------------------------------------------------------------------------
SQLITE_OPTIONS = {
    # A write transaction takes its lock at the start: one that reads first and writes later fails at once.
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA foreign_keys=ON;",
}
_database = env.dj_db_url("CHP_DATABASE_URL", f"sqlite:///{CHP_STATE_DIR}/database/chp.sqlite3")
if _database["ENGINE"] == "django.db.backends.sqlite3":
    _database["OPTIONS"] = SQLITE_OPTIONS
elif _database["ENGINE"] == "django.db.backends.postgresql":
    _database["CONN_HEALTH_CHECKS"] = True
    _database["CONN_MAX_AGE"] = 60
    # Seconds and milliseconds: a server that has vanished without a word is noticed, and not waited for.
    _database["OPTIONS"] = {"connect_timeout": 10, "tcp_user_timeout": 30_000, **_database.get("OPTIONS", {})}
else:
    raise ImproperlyConfigured("CHP_DATABASE_URL must begin with sqlite:// or postgres://.")
DATABASES = {"default": _database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Jobs (DESIGN section 10) -------------------------------------------------------------------
MAX_WORKERS = environment.whole(env, "MAX_WORKERS", 2, 1, 64)
CHP_TYPE_LIMITS = {
    job_type: environment.whole(env, f"MAX_{job_type}_WORKERS", 1, 0, 64)
    for job_type in ("BACKUP", "RESTORE", "REPAIR")
}
CHP_TYPE_LIMITS_PER_SERVER = {"HEALTH": environment.whole(env, "MAX_HEALTH_JOBS_PER_SERVER", 2, 0, 64)}
# 0: no limit but the others.
MAX_JOBS_PER_SERVER = environment.whole(env, "MAX_JOBS_PER_SERVER", 0, 0, 64)
CHP_HEAVY_LIMITS = {
    resource: environment.whole(env, f"MAX_HEAVY_{resource.upper()}_JOBS", most, 1, 64)
    for resource, most in (("disk", 2), ("database", 2), ("network", 4))
}
CHP_AGING_HOURS = environment.bounded(env, "CHP_AGING_HOURS", 6, 0, 8_760)
CHP_JOB_RETENTION_DAYS = environment.whole(env, "CHP_JOB_RETENTION_DAYS", 180, 0, 36_500)
CHP_KEY_RETENTION_DAYS = environment.whole(env, "CHP_KEY_RETENTION_DAYS", 400, 1, 36_500)
CHP_HEARTBEAT_SECONDS = environment.bounded(env, "CHP_HEARTBEAT_SECONDS", 30, 0.1, 600)
CHP_STALE_BEATS = environment.whole(env, "CHP_STALE_BEATS", 5, 2, 100)
CHP_POLL_SECONDS = environment.bounded(env, "CHP_POLL_SECONDS", 2, 0.05, 60)
CHP_DEADLINE_GRACE_SECONDS = environment.bounded(env, "CHP_DEADLINE_GRACE_SECONDS", 45, 0, 3600)
CHP_PREPARED_STATEMENTS = env.bool("CHP_PREPARED_STATEMENTS", True)
CHP_BUSY_DELAY_SECONDS = environment.bounded(env, "CHP_BUSY_DELAY_SECONDS", 15, 0.1, 3600)
CHP_ANCHOR_SECONDS = environment.bounded(env, "CHP_ANCHOR_SECONDS", 60, 1, 86_400)
CHP_PLAN_MINUTES = environment.whole(env, "CHP_PLAN_MINUTES", 60, 1, 10_080)
CHP_OPERATIONS = "chp_site.operations.OPERATIONS"
# Names under these never become a site: they are the panel's own.
CHP_OWN_HOSTS = frozenset(host for host in ALLOWED_HOSTS if "*" not in host)
CHP_ALLOW_TEST_DOMAINS = env.bool("CHP_ALLOW_TEST_DOMAINS", False)

# django-q2 triggers short, repeatable evaluations; it never holds the truth about work.
Q_CLUSTER = {
    "name": "chp",
    "broker_class": "chp_site.evaluation_broker.EvaluationBroker",
    "orm": "default",
    "workers": 1,
    "queue_limit": 2,
    "bulk": 1,
    "timeout": 300,
    "retry": 600,
    "max_attempts": 1,
    "ack_failures": True,
    "catch_up": False,
    "save_limit": 100,
}

# --- API ---------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "api.authentication.CurrentTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["api.parsers.LimitedJSONParser"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "api.problems.problem_response",
    "DEFAULT_THROTTLE_RATES": {"login": env.str("CHP_API_LOGIN_RATE", "20/minute")},
    "NUM_PROXIES": 0,
    "DEFAULT_PAGINATION_CLASS": "api.pagination.KeysetPagination",
    "PAGE_SIZE": 50,
}
REST_KNOX = {"TOKEN_LIMIT_PER_USER": 20, "AUTO_REFRESH": False}
SPECTACULAR_SETTINGS = {
    "TITLE": "CHP",
    "DESCRIPTION": "Sites, jobs and backups of a hosting control plane.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "ENUM_NAME_OVERRIDES": {},
}

# --- Language, time, log -----------------------------------------------------------------------
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
FORMAT_MODULE_PATH = ["chp_site.formats"]
USE_I18N = True
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.str("CHP_LOG_LEVEL", "INFO")},
    # Logins are in the audit trail; axes would tell each one four times.
    "loggers": {"axes": {"level": "WARNING"}},
}
