"""What all tests have: a SIGINT that is a KeyboardInterrupt, also where they are started in the background, which ignores it."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
