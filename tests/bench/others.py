"""How much of the processors something else took while a command of ours ran.

A measurement that somebody else's work disturbed says nothing about prices, and is to be made again
before anybody looks at what it says.  What counts is time in user and system mode and time that the
hypervisor gave to others, less what our own finished children took, in processors: 0.1 is a tenth of one.
"""
import os
import resource
import time

TICK = os.sysconf("SC_CLK_TCK")


def taken():
    """(seconds in which the processors worked or were stolen, since the machine started; ours; now)"""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, _, _, stolen = map(int, file.readline().split()[1:9])
    ours = 0
    for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF):
        usage = resource.getrusage(who)
        ours += usage.ru_utime + usage.ru_stime
    return (user + nice + system + stolen) / TICK, ours, time.monotonic()


class Watch:
    """Begins when it is made."""

    def __init__(self):
        self.before = taken()

    def others(self):
        """Processors that something else has taken since."""
        work, ours, now = (b - a for a, b in zip(self.before, taken()))
        return max(0, (work - ours) / now) if now > 0 else 0


def undisturbed(run, most, tries):
    """(what `run` returned, the processors that others took) of the first time that they took no more than
    `most`, else of the time when they took least."""
    best = None
    for _ in range(tries):
        watch = Watch()
        result = run()
        others = watch.others()
        if best is None or others < best[1]:
            best = result, others
        if others <= most:
            break
    return best
