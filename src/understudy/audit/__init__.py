"""Room 14: whether this installed build keeps its privacy claims, tried on invented tables.

Three kinds of checks. A *replay* runs a mechanism on a table and on its neighbour with the same
released values and compares what was about to get noise. A *law* is the whole output law of a verb
on a tiny table. A *statistical* check draws many times.

The room sees exact values, so it holds invented tables only, and nothing but its own command may
import it (``audit/fence.py``).
"""
