#!/usr/bin/env python
"""Django's own entry; operators use the hosting-* commands, which call the same commands."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chp_site.settings")
    execute_from_command_line(sys.argv)
