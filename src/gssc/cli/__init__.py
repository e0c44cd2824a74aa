"""The command line: one thin file per command, found by name in :mod:`gssc.cli.main`."""
