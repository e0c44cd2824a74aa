"""The command line: one thin file a command, found by name in :mod:`gssc.cli.main`."""
