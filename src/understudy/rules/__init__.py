"""Room 7: classes of yes/no rules, counting them all, and who may solve for the best of them."""
