"""The `cleave` command, which plans: found once, run with a list of arguments, its errors raised as they are."""
import json
import os
import shutil
import subprocess
from pathlib import Path


class CleaveError(RuntimeError):
    """One line that says what was wrong, where, and what to do."""


def find():
    """$CLEAVE, or `cleave` of $PATH, or what the tree around this file has built."""
    named = os.environ.get("CLEAVE")
    built = Path(__file__).resolve().parents[2] / "build" / "cleave"
    found = named or shutil.which("cleave") or (str(built) if built.exists() else None)
    if found is None:
        raise CleaveError("there is no command `cleave` on $PATH: install it, or say where it is in $CLEAVE")
    return found


def run(*arguments):
    """Runs `cleave ARGUMENTS... --json` and returns what it prints; its progress goes to stderr as ever."""
    command = [find(), *map(str, arguments), "--json"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise CleaveError(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise CleaveError(lines[-1] if lines else f"{command[0]} ended with code {done.returncode}")
    return json.loads(done.stdout)
