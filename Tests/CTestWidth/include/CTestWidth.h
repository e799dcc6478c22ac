// Nothing to call. See width.c.
