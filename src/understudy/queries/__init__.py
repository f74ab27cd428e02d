"""Room 4: what may be asked. Every query is a 0/1 function of one row; every answer is a count."""
