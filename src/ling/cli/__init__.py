"""The `ling` command."""
