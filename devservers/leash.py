"""Runs a command that can't outlive its parent: ``python leash.py <parent pid> <command> [argument ...]``.

The kernel kills the command as soon as the parent has ended, for whatever reason. This is a program rather than a
``preexec_fn``, because Python code between fork and exec can deadlock in a process with threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent, then become the command."""
    parent, *command = sys.argv[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != int(parent):
        sys.exit("the parent process ended first")
    try:
        os.execvp(command[0], command)  # noqa: S606  - the point is to become the command, without a shell
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
