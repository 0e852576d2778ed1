"""The experiments of the paper: data, repeats, claims, figures and pages."""
