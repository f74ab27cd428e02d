"""Room 6, solvers over records: which record has the largest sum of weighted queries? They see
released values only.
"""
