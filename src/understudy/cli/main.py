"""The ``understudy`` command: a thin shell over the public functions, a file a command.

Exit codes: 0 done; 1 a bundle failed verification, an audit found a breach, or something
unexpected; 2 the request is wrong and nothing was charged; 3 the budget does not allow it; 4 the
ledger is damaged; 5 a release died and its budget is spent; 6 what was made is whole, but kept in
another place than was named; 130 interrupted.
"""

from __future__ import annotations

import click

import understudy
from understudy.cli.audit import audit
from understudy.cli.budget import budget
from understudy.cli.demo import demo
from understudy.cli.export import export
from understudy.cli.learn import learn
from understudy.cli.mechanisms import mechanisms
from understudy.cli.plan import plan
from understudy.cli.release import release
from understudy.cli.sample import sample
from understudy.cli.schema import schema
from understudy.cli.verify import verify

# in the order of the alphabet, as the help lists them
COMMANDS = (audit, budget, demo, export, learn, mechanisms, plan, release, sample, schema, verify)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(understudy.__version__, prog_name="understudy")
def main() -> None:
    """Differentially private stand-ins for sensitive tables."""


for command in COMMANDS:
    main.add_command(command)
