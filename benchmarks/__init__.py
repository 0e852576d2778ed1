"""ling and its peers side by side: same data, same answer, one run. `make bench` runs them."""
