"""django-q2's queue, closed to all but the evaluations of the code.

django-q2 signs what it queues but not the rows of its schedule table, and calls whatever function a row
names: who can write the database could run code as the panel. Here such a row comes to nothing.
"""

import logging

from django_q.brokers.orm import ORM
from django_q.signing import SignedPackage

from chp_site.evaluations import FUNCTIONS

logger = logging.getLogger(__name__)


class EvaluationBroker(ORM):
    """The ORM broker, which takes only known functions without hooks."""

    def enqueue(self, task: str) -> object:
        """Queue a signed task; drop it, and say so, where it is none of ours."""
        asked = SignedPackage.loads(task)
        if asked.get("func") not in FUNCTIONS or asked.get("hook") or asked.get("args"):
            logger.error(
                "a schedule asks for %.200r, which is no evaluation of this installation", asked.get("func")
            )
            return None
        return super().enqueue(task)
