"""Room 13: private learning: ``learn()``, what it saves, and estimators that learn
one privately.
"""
