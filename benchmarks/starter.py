"""Start a command, wait for it, and print the seconds it took and its most memory in megabytes.

On Linux the most memory of a process counts that of the one that started it, before its exec: so
what starts it must be small. This imports nothing of the project, and ends the command when it is
asked to end.
"""

import os
import signal
import sys
import time


def main() -> None:
    """Start what the arguments say; end with its status."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    silent = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    began = time.perf_counter()
    command = os.posix_spawn(
        sys.argv[1], sys.argv[1:], os.environ, file_actions=[silent], setsigmask=[]
    )
    signal.signal(signal.SIGTERM, lambda *_: os.kill(command, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    _, status, used = os.wait4(command, 0)
    seconds = time.perf_counter() - began
    code = os.waitstatus_to_exitcode(status)
    if code:
        sys.exit(code if code > 0 else 128 - code)
    print(seconds, used.ru_maxrss / (1_048_576 if sys.platform == "darwin" else 1_024))


if __name__ == "__main__":
    main()
