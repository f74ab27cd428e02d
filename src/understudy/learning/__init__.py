"""Private learning: classes of yes/no rules, what may be asked of them, and estimators that learn
one privately.
"""
