"""The command `ringcall`."""

import os
import signal
import sys

from ringcall._ringcall import command


def main() -> None:
    """Runs the command line, and ends the process with its status."""
    # The command handles signals itself, as the program does; Python's handler would wait for the command to end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    status = command(["ringcall", *sys.argv[1:]])
    # Threads that listen for signals stay until the end.
    os._exit(status)
