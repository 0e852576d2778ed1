"""Dense linear algebra below everything else: factorisations, threads, rounding constants."""
