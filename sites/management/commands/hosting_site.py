"""hosting-site: the inventory of sites."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from accounts.actor import Actor
from accounts.models import Customer
from chp_site.console import BAD_USAGE
from chp_site.job_output import wait_for
from chp_site.submitting import SubmittingCommand, line_of
from chp_site.tables import facts, moment, table
from jobs.request import JobRequest
from provisioning.ordering import Order, order_site
from provisioning.resources import databases_of, register_database
from sites.capabilities import PRESETS, Capability
from sites.inventory import set_capabilities
from sites.models import Server, Site
from sites.queries import site_named, sites_visible_to


class Command(SubmittingCommand):
    """Subcommands list, show, create, provision, capabilities, add-database."""

    help = "List, show and make sites."
    prog = "hosting-site"

    def arguments(self, parser: CommandParser) -> None:
        parser.set_defaults(has_subcommands=True)
        names = "list | show | create | provision | capabilities | add-database"
        verbs = parser.add_subparsers(dest="verb", required=True, metavar=names)
        listing = verbs.add_parser("list", help="all sites that you may see")
        listing.add_argument("--customer", help="a customer's code")
        for verb, text in (
            ("show", "all of one site"),
            ("create", "add a site and make it real"),
            ("provision", "make an added site real, again"),
            ("capabilities", "what may be done to it"),
            ("add-database", "note that a database belongs to it"),
        ):
            verbs.add_parser(verb, help=text).add_argument("site", help="the site's domain")
        self._details(verbs.choices)
        for one in verbs.choices.values():
            self.common(one)

    def _details(self, verbs: Any) -> None:
        create = verbs["create"]
        create.add_argument("--customer", required=True, help="the customer's code")
        create.add_argument("--server", required=True, help="the server's name")
        create.add_argument("--preset", choices=list(PRESETS), default="FULL")
        for verb in (create, verbs["provision"]):
            verb.add_argument("--alias", action="append", default=[], help="may be given several times")
            self.submission_arguments(verb)
        known = [capability.value for capability in Capability]
        verbs["capabilities"].add_argument("--set", nargs="+", choices=[*known, *PRESETS], metavar="NAME")
        verbs["add-database"].add_argument("--engine", default="mariadb", choices=["mariadb"])
        verbs["add-database"].add_argument("--name", required=True)

    def act(self, actor: Actor, options: dict[str, Any]) -> Any:
        return getattr(self, "_" + options["verb"].replace("-", "_"))(actor, options)

    def _list(self, actor: Actor, options: dict[str, Any]) -> Any:
        sites = sites_visible_to(actor)
        if options["customer"]:
            sites = sites.filter(customer__code=options["customer"])
        rows = list(sites.order_by("domain")[:1000])
        if not options["as_json"]:
            lines = [(site, site.customer.code, site.server, site.state, site.preset) for site in rows]
            self.stdout.write(table(("SITE", "CUSTOMER", "SERVER", "STATE", "PRESET"), lines))
        return [_data(site) for site in rows]

    def _show(self, actor: Actor, options: dict[str, Any]) -> Any:
        site = site_named(actor, options["site"])
        return self._shown(site, options)

    def _create(self, actor: Actor, options: dict[str, Any]) -> Any:
        order = Order(
            _one(Customer, "code", options["customer"]),
            _one(Server, "name", options["server"]),
            options["site"],
            options["preset"],
            tuple(options["alias"]),
        )
        site, job = order_site(actor, order)
        if options["wait"]:
            job = wait_for(job, options["timeout"])
        if not options["as_json"]:
            self.stdout.write(line_of(job))
        return {"site": _data(site), "job": self._finish(actor, job, options)}

    def _provision(self, actor: Actor, options: dict[str, Any]) -> Any:
        site = site_named(actor, options["site"])
        request = JobRequest(
            "PROVISION",
            site.pk,
            {"aliases": options["alias"]},
            idempotency_key=options["key"],
            reason=options["reason"],
        )
        return self.submit(actor, options, request)

    def _capabilities(self, actor: Actor, options: dict[str, Any]) -> Any:
        site = site_named(actor, options["site"])
        if options["set"]:
            names = [name for word in options["set"] for name in PRESETS.get(word, (word,))]
            site = set_capabilities(actor, site, [str(name) for name in names])
        return self._shown(site, options)

    def _add_database(self, actor: Actor, options: dict[str, Any]) -> Any:
        site = site_named(actor, options["site"])
        register_database(actor, site, options["engine"], options["name"])
        return self._shown(site, options)

    def _shown(self, site: Site, options: dict[str, Any]) -> Any:
        data = _data(site)
        if not options["as_json"]:
            names = ("domain", "customer", "server", "state", "preset", "capabilities", "databases")
            pairs = [(name.capitalize(), _words(data[name])) for name in names]
            self.stdout.write(facts([*pairs, ("Created", moment(site.created_at))]))
        return data


def _words(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _data(site: Site) -> dict[str, Any]:
    return {
        "id": site.pk,
        "domain": site.domain,
        "display_domain": site.display_domain,
        "customer": site.customer.code,
        "server": site.server.name,
        "state": site.state,
        "preset": site.preset,
        "capabilities": site.capabilities,
        "databases": [row.name for row in databases_of(site)],
        "created_at": site.created_at.isoformat(),
    }


def _one(model: Any, field: str, value: str) -> Any:
    row = model.objects.filter(**{field: value}).first()
    if row is None:
        known = ", ".join(model.objects.values_list(field, flat=True)[:10]) or "none"
        name = model._meta.verbose_name
        raise CommandError(f"There is no {name} {value!r}. There are: {known}.", returncode=BAD_USAGE)
    return row
