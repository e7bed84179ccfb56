"""Entry of the hosting-* console scripts: each calls the management command of its own name."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

BAD_CONFIGURATION = 2


def main() -> None:
    """Run the command that the script is called after."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chp_site.settings")
    command = os.path.basename(sys.argv[0]).replace("-", "_")
    try:
        execute_from_command_line([sys.argv[0], command, *sys.argv[1:]])
    except ImproperlyConfigured as error:
        sys.stderr.write(f"{os.path.basename(sys.argv[0])}: {error}\n")
        sys.exit(BAD_CONFIGURATION)
