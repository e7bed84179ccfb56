"""Entry of the web server process."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chp_site.settings")
application = get_wsgi_application()
