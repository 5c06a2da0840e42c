"""Runs that are killed at random moments, in a folder with a description. Run by test_run_killed.

    PYTHONPATH=. python killed_runs.py SECONDS KILLS

Prints how many were killed and how many came to their end. Children are forked from here, where
everything is imported and nothing else runs.
"""

import json
import os
import random
import signal
import sys
import time

from tests.command_line import command


def one_run(seconds):
    """Fork a run and kill it after so many seconds; tell whether it had ended by itself."""
    child = os.fork()
    if child == 0:
        os._exit(command("run", "release.yml").exit_code)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.wait()
    return status == 0


def main(seconds, kills):
    command("run", "--check", "release.yml")
    ended = [one_run(random.uniform(0, seconds)) for _ in range(kills)]
    print(json.dumps({"killed": ended.count(False), "ended": ended.count(True)}))


main(float(sys.argv[1]), int(sys.argv[2]))
