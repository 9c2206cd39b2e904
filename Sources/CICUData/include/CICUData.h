// Nothing to call: see icudata.c.
