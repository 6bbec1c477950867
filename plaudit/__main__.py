"""The entry point of the command line: `plaudit`, and `python -m plaudit`."""

import os
import signal


def main() -> None:
    """Run the command line. Ctrl-C while it is imported, most of a second, ends the process without a traceback."""
    # Not in a script's background, nor as the first process of a container, which no default action ends.
    is_interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler and os.getpid() != 1
    if is_interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from plaudit.cli.main import main as run

    if is_interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
