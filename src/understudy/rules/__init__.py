"""Classes of yes/no rules: what a private learner may ask, counting them all, certifying solvers."""
