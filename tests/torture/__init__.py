"""Stores under torture: kills, faults in files and system calls, stalls, full disks, mixed workers.

`python -m tests.torture --minutes 3` tortures small stores for so long, each time in another way, and prints one table.
A store may refuse with a sentence, and the same command must always end with the same bits. It may not lose a model
that was finished, give other numbers with or without a word, end in a traceback, or hang.
"""
