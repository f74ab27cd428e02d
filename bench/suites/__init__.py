"""A suite is one file here: its docstring says what it measures, ``SUITE`` says where.

    \"\"\"Errors of two mechanisms on ADULT.\"\"\"

    from bench.grid import Grid, Suite, View
    from bench.releases import BY_CELLS

    SUITE = Suite(
        grids=[
            Grid(
                measure=BY_CELLS,
                data=["adult"],
                workload=["2-way"],
                mechanism=["arp", "gaussian"],
                epsilon=[0.1, 1.0],
                seeds=3,
            )
        ],
        views=[
            View(
                title="ADULT, all pairs",
                by=("epsilon", "mechanism"),
                shows={"max": ".4f", "mean": ".2e"},
                ratio="mechanism",
            )
        ],
    )

A measurement of another kind is a function from a point to what was found there, one dictionary
for each row of the results. It runs in a process of its own. Import what the package itself does
not need inside that function.
"""
