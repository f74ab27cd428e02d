"""Room 1: what is PUBLIC about the table. Nothing here is ever read from sensitive rows."""

from understudy.schema.columns import Boolean, Categorical, Column, Moment, Number
from understudy.schema.schema import Schema

__all__ = ["Boolean", "Categorical", "Column", "Moment", "Number", "Schema"]
