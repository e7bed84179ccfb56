"""The root helper of a server: executes signed, whitelisted, journalled actions and nothing else."""

VERSION = "0.1.0"
