"""One bench: suites of measurements, their results in Parquet, tables and figures made from them.

    python -m bench list
    python -m bench run SUITE
    python -m bench report [SUITE ...]

A suite is one file in ``bench/suites``: its docstring says what it measures, ``SUITE`` says where.
"""
