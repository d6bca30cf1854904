"""How often something is timed: what takes long a few times, what is steady, too, and all else as often as there is time
for."""
FEWEST, FEWEST_SURE, MOST = 3, 5, 60  # the second where their median is known as well as
SURE, MOST_SPREAD = 0.02, 1e3  # the latter of what is hardly known: a file of times has no more than 1e6


def summary(seconds):
    """The median, and half the interquartile range over it; of few the whole range."""
    seconds = sorted(seconds)
    n = len(seconds)
    median = (seconds[(n - 1) // 2] + seconds[n // 2]) / 2
    return median, min((seconds[3 * n // 4] - seconds[n // 4]) / 2 / max(median, 1e-12), MOST_SPREAD)


def _is_sure(seconds):
    median, spread = summary(seconds)
    return median > 0 and spread <= SURE * len(seconds) ** 0.5  # what is less than nothing is no figure yet


def are_enough(seconds, spent, each, fewest=FEWEST):
    """Are there enough of them after so many seconds, of which there are `each`?"""
    n = len(seconds)
    return n >= MOST or (n >= fewest and spent >= each) or (n >= FEWEST_SURE and _is_sure(seconds))
